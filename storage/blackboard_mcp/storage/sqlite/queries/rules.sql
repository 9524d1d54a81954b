-- Rules: the constraints of a board, their revision, and who was shown them. Values are bound by position: ?1, ?2, …

-- name: rules_standing
-- The public rules in force with their marks; item 0 stands for the constraints of the core.
SELECT number, version || coalesce(' ' || json_extract(metadata, '$.rule'), '') FROM item INDEXED BY item_law
WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND type = 'CONSTRAINT'
  AND status IN ('ACTIVE', 'DEBATED') AND PUBLIC(owner)
UNION ALL
SELECT 0, json_extract(core, '$.constraints') FROM board
WHERE no = ?1 AND json_array_length(core, '$.constraints') > 0;

-- name: rule_changes
-- The last change of each rule.
SELECT item, mark, revision FROM rule_change WHERE board = ?1;

-- name: rule_changed
-- Rules (a JSON object of marks by item) that a revision changed.
INSERT INTO rule_change(board, item, mark, revision)
SELECT ?1, CAST(key AS INTEGER), value, ?3 FROM json_each(?2) WHERE true
ON CONFLICT DO UPDATE SET mark = excluded.mark, revision = excluded.revision;

-- name: rules_revision
-- The revision of a board's rules; 0 before the first.
SELECT coalesce(max(revision), 0) FROM rule_change WHERE board = ?1;

-- name: rules_known
-- The revision of a board's rules, the one that an agent was last shown (0 before the first), and whether rules or hot
-- issues are in working memory.
SELECT (SELECT coalesce(max(revision), 0) FROM rule_change WHERE board = ?1),
       coalesce((SELECT revision FROM rules_seen WHERE board = ?1 AND agent = ?2), 0),
       EXISTS (SELECT 1 FROM item INDEXED BY item_law
               WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE'));

-- name: rules_saw
-- An agent was shown the rules; an older revision changes nothing.
INSERT INTO rules_seen(board, agent, revision) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET revision = excluded.revision WHERE revision < excluded.revision;

-- name: checks_unnamed
-- Open hot issues of the checks absent: and exists: that no public rule in force names.
SELECT h.number FROM item h INDEXED BY item_law
WHERE h.board = ?1 AND h.zone = 'working' AND h.type IN ('CONSTRAINT', 'HOT_ISSUE') AND h.type = 'HOT_ISSUE'
  AND h.status = 'ACTIVE' AND h.author = ?2 AND substr(h.key, 1, 7) = 'result:'
  AND substr(json_extract(h.metadata, '$.result.check'), 1, 7) IN ('absent:', 'exists:')
  AND NOT EXISTS (
      SELECT 1 FROM item r INDEXED BY item_law
      WHERE r.board = ?1 AND r.zone = 'working' AND r.type IN ('CONSTRAINT', 'HOT_ISSUE') AND r.type = 'CONSTRAINT'
        AND r.status IN ('ACTIVE', 'DEBATED') AND PUBLIC(r.owner)
        AND json_extract(r.metadata, '$.rule.check') = json_extract(h.metadata, '$.result.check'));
