-- Support for findings, and retraction of what others rest on. Values are bound by position: ?1, ?2, …

-- name: finding_add
-- Remembers the fingerprint of a finding, so that it is recognised when it is posted again. Its first 33 characters
-- are kept: 128 bits or more.
INSERT INTO finding(board, fingerprint, number) VALUES (?1, substr(?2, 1, 33), ?3) ON CONFLICT DO NOTHING;

-- name: findings_page
-- Items of some types (a JSON list) that everybody sees, that have no key and were not forgotten, after a place.
SELECT board, number, text, status FROM item
WHERE (board, number) > (?1, ?2) AND PUBLIC(owner) AND key IS NULL AND deleted = 0 AND type IN (SELECT value FROM json_each(?3))
ORDER BY board, number LIMIT ?4;

-- name: same_findings
-- Findings of one type that say the same, by others than an agent, and stand; oldest first. Of the newest 50 that say the
-- same, because who reports each task done with the same words would be looked through for ever.
SELECT f.number FROM (
    SELECT number FROM finding WHERE board = ?1 AND fingerprint = substr(?2, 1, 33) ORDER BY number DESC LIMIT 50) f
CROSS JOIN item i ON i.board = ?1 AND i.number = f.number
WHERE i.type = ?3 AND i.author <> ?4 AND PUBLIC(i.owner)
  AND i.status IN ('ACTIVE', 'DEBATED') AND (i.ttl IS NULL OR i.zone = 'archive')
  AND i.superseded = 0
ORDER BY f.number LIMIT 20;

-- name: endorsement_add
-- An agent says the same as an item; once.
INSERT INTO endorsement(board, item, agent, tags, metadata, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING RETURNING item;

-- name: endorsements
-- The agents that posted the same as an item, with their tags and metadata; oldest first.
SELECT agent, tags, metadata, at FROM endorsement WHERE board = ?1 AND item = ?2 ORDER BY at, agent LIMIT ?3;

-- name: stances
-- The agents for and against items (a JSON list), with their owners, oldest first. A stance does not count if it is
-- private or retracted, nor an opposing one if it is resolved; nor a critique once its author acknowledged the debate
-- about it.
SELECT s.item, s.against, s.agent, COALESCE(p.owner, s.agent)
FROM (
    SELECT n.item, 0 AS against, n.agent, n.at
    FROM endorsement n WHERE n.board = ?1 AND n.item IN (SELECT value FROM json_each(?2))
    UNION ALL
    SELECT e.target, CASE WHEN e.kind = 'supports' THEN 0 ELSE 1 END, i.author, i.created_at
    FROM edge e CROSS JOIN item i ON i.board = e.board AND i.number = e.source
    WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2))
      AND e.kind IN ('supports', 'refutes', 'critiques')
      AND PUBLIC(i.owner) AND i.status NOT IN ('WITHDRAWN', 'INVALIDATED')
      AND (e.kind = 'supports' OR i.status <> 'RESOLVED')
      AND i.superseded = 0
      AND NOT (e.kind = 'critiques' AND EXISTS (
          SELECT 1 FROM debate_critique c CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
          CROSS JOIN obligation o ON o.board = d.board AND o.agent = i.author AND o.item = d.root
            AND o.duty = 'acknowledge' AND o.debate = d.id
          WHERE c.board = e.board AND c.critique = e.source AND d.outcome NOT IN ('falls', 'amended')
            AND o.state = 'acknowledged'
            AND (d.root = e.target OR EXISTS (
                SELECT 1 FROM debate_critique t
                WHERE t.board = d.board AND t.debate = d.id AND t.critique = e.target))))
) s LEFT JOIN principal p ON p.agent = s.agent
ORDER BY s.item, s.at, s.agent;

-- name: successors
-- By what some items (a JSON list) were superseded, on their authors' word or agreement: the first item of each.
SELECT e.target, min(e.source) FROM edge e
JOIN item i ON i.board = e.board AND i.number = e.target
JOIN item a ON a.board = e.board AND a.number = e.source
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND e.kind = 'supersedes'
  AND (a.author = i.author AND PUBLIC(a.owner)
       OR EXISTS (SELECT 1 FROM agreed_claim c WHERE c.board = e.board AND c.source = e.source
                    AND c.kind = 'supersedes' AND c.target = e.target))
GROUP BY e.target;

-- name: superseding
-- The items that supersede an item, by any author, or took its place in a debate.
SELECT source FROM edge WHERE board = ?1 AND target = ?2 AND kind = 'supersedes'
UNION
SELECT gave_way_to FROM debate INDEXED BY debate_root WHERE board = ?1 AND root = ?2 AND gave_way_to <> 0;

-- name: superseded_by
-- The items that an item supersedes, or whose place it took in a debate.
SELECT target FROM edge WHERE board = ?1 AND source = ?2 AND kind = 'supersedes'
UNION
SELECT root FROM debate INDEXED BY debate_gave_way WHERE board = ?1 AND gave_way_to = ?2 AND gave_way_to <> 0;

-- name: citing
-- The items that rest on an item, by number after ?3, with the closest edge: 1 depends_on, 2 derived_from, and, where
-- ?5 is set, 3 analyzed_by (from what was analysed to the analysis), 4 supports.
SELECT number, min(way) FROM (
    SELECT * FROM (SELECT source AS number, 1 AS way FROM edge
        WHERE board = ?1 AND target = ?2 AND kind = 'depends_on' AND source > ?3 ORDER BY source LIMIT ?4)
    UNION ALL
    SELECT * FROM (SELECT source, 2 FROM edge
        WHERE board = ?1 AND target = ?2 AND kind = 'derived_from' AND source > ?3 ORDER BY source LIMIT ?4)
    UNION ALL
    SELECT * FROM (SELECT target, 3 FROM edge
        WHERE ?5 = 1 AND board = ?1 AND source = ?2 AND kind = 'analyzed_by' AND target > ?3
        ORDER BY target LIMIT ?4)
    UNION ALL
    SELECT * FROM (SELECT source, 4 FROM edge
        WHERE ?5 = 1 AND board = ?1 AND target = ?2 AND kind = 'supports' AND source > ?3 ORDER BY source LIMIT ?4)
) GROUP BY number ORDER BY number LIMIT ?4;

-- name: items_brief
-- Items by number (a JSON list) without their texts, whoever may see them: for the server's own work.
SELECT ITEM_BRIEF
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: watchers_of
-- The agents that watch items (a JSON list) or acknowledged them. The order of the join is forced: by item.
SELECT DISTINCT o.item, o.agent FROM json_each(?2) w CROSS JOIN obligation o
WHERE o.board = ?1 AND o.item = w.value AND o.duty = 'acknowledge'
  AND o.state IN ('outstanding', 'watching', 'acknowledged') ORDER BY o.item, o.agent;

-- name: retraction_add
-- An item rests on something that was retracted.
INSERT INTO retraction(board, item, source, kind, via, status, successor, seq)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: retraction_closer
-- An item that was told to support something retracted rests on it as well.
UPDATE retraction SET kind = ?4, via = ?5 WHERE board = ?1 AND item = ?2 AND source = ?3;

-- name: retractions_passed_on
-- The retractions known of items (a JSON list), which the items that rest on them inherit; oldest first.
SELECT item, source, status, successor FROM retraction
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND kind <> 'supports'
ORDER BY seq, source LIMIT ?3;

-- name: retractions_known
-- The retracted items that one item is known to rest on, and by which edge.
SELECT source, kind FROM retraction WHERE board = ?1 AND item = ?2;

-- name: retractions_clear
-- A new version of an entry rests on nothing yet.
DELETE FROM retraction WHERE board = ?1 AND item = ?2;

-- name: retractions
-- Retraction notices of some items (a JSON list), oldest first, that name nothing an agent may not see.
SELECT r.item, s.type, r.source, r.status, r.kind, v.type, r.via, n.type, n.number
FROM retraction r
JOIN item s ON s.board = r.board AND s.number = r.source AND VISIBLE(s.owner, ?3)
JOIN item v ON v.board = r.board AND v.number = r.via AND VISIBLE(v.owner, ?3)
LEFT JOIN item n ON n.board = r.board AND n.number = r.successor AND VISIBLE(n.owner, ?3)
WHERE r.board = ?1 AND r.item IN (SELECT value FROM json_each(?2)) ORDER BY r.item, r.seq, r.source;

-- name: spreading_add
-- Notes that the items resting on an item have yet to be told of its retraction.
INSERT INTO spreading(board, source, item, after, status, successor, agent) VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET after = 0, status = excluded.status, successor = excluded.successor,
                          agent = excluded.agent;

-- name: spreading_next
-- An item of a board whose dependants are yet to be told; of one retraction where ?2 names it.
SELECT source, item, after, status, successor, agent FROM spreading
WHERE board = ?1 AND (?2 = 0 OR source = ?2) ORDER BY source, item LIMIT 1;

-- name: spreading_moved
-- They were told up to a number.
UPDATE spreading SET after = ?4 WHERE board = ?1 AND source = ?2 AND item = ?3;

-- name: spreading_done
-- They were all told.
DELETE FROM spreading WHERE board = ?1 AND source = ?2 AND item = ?3;

-- name: spreading_boards
-- Boards with somebody yet to be told of a retraction.
SELECT id FROM board WHERE no IN (SELECT DISTINCT board FROM spreading) ORDER BY id;
