-- Statements that PostgreSQL needs in other words than SQLite: the same names as in sqlite/queries, the same values,
-- the same rows. What each is for stands there.

-- name: adopted
SELECT source, type, number FROM (
    SELECT DISTINCT ON (r.source) r.source, a.type, a.number FROM json_each(?2) w
    JOIN edge r ON r.board = ?1 AND r.source = w.value AND r.kind = 'replies_to'
    JOIN item t ON t.board = ?1 AND t.number = r.target AND t.type IN ('PLAN', 'DECISION', 'HYPOTHESIS')
    JOIN edge d ON d.board = ?1 AND d.target = r.source AND d.kind = 'derived_from'
    JOIN item a ON a.board = ?1 AND a.number = d.source AND a.author = t.author AND VISIBLE(a.owner, ?3)
    WHERE a.number = t.number OR EXISTS (SELECT 1 FROM edge s WHERE s.board = ?1 AND s.source = a.number
                                           AND s.kind = 'supersedes' AND s.target = t.number)
    ORDER BY r.source, a.number DESC
) newest;

-- name: answers_to
SELECT DISTINCT ON (e.target) e.target, e.source, a.type
FROM edge e
JOIN item a ON a.board = e.board AND a.number = e.source
JOIN item q ON q.board = e.board AND q.number = e.target
WHERE e.board = ?1 AND e.target IN (SELECT value::bigint FROM json_each(?2)) AND e.kind = 'replies_to'
  AND (a.type = 'ANSWER' OR a.type = 'REPLY' AND a.author <> q.author)
  AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED') AND VISIBLE(a.owner, ?3)
ORDER BY e.target, e.source DESC;

-- name: replaced_by
SELECT DISTINCT ON (e.target) e.target, e.source, a.type
FROM edge e
JOIN item a ON a.board = e.board AND a.number = e.source
JOIN item i ON i.board = e.board AND i.number = e.target
WHERE e.board = ?1 AND e.target IN (SELECT value::bigint FROM json_each(?2)) AND e.kind = 'supersedes'
  AND (a.author = i.author
       OR EXISTS (SELECT 1 FROM agreed_claim c WHERE c.board = e.board AND c.source = e.source
                    AND c.kind = 'supersedes' AND c.target = e.target))
  AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED') AND VISIBLE(a.owner, ?3)
ORDER BY e.target, e.source DESC;

-- name: findings_alike
-- Its words are looked up one after another: with them joined, a plan goes through all findings of the board.
SELECT number, how FROM (
    SELECT f.number, 'same' AS how FROM finding f CROSS JOIN item i ON i.board = f.board AND i.number = f.number
    WHERE f.board = ?1 AND f.fingerprint = substr(?2, 1, 33) AND f.number < ?5 AND i.type = ?4 AND PUBLIC(i.owner)
      AND i.status IN ('WITHDRAWN', 'INVALIDATED')
    ORDER BY f.number DESC LIMIT 20)
UNION ALL
SELECT number, how FROM (
    SELECT DISTINCT f.number, 'close' AS how FROM json_each(?6) w
    CROSS JOIN LATERAL (SELECT o.number FROM finding o
                        WHERE o.board = ?1 AND o.fingerprint = substr(w.value, 1, 33) AND o.number < ?5 OFFSET 0) f
    CROSS JOIN item i ON i.board = ?1 AND i.number = f.number
    WHERE PUBLIC(i.owner) AND i.status IN ('WITHDRAWN', 'INVALIDATED')
    ORDER BY f.number DESC LIMIT 20)
UNION ALL
SELECT number, how FROM (
    SELECT f.number, 'numbers' AS how FROM finding f CROSS JOIN item i ON i.board = f.board AND i.number = f.number
    WHERE f.board = ?1 AND f.fingerprint = substr(?3, 1, 33) AND f.number < ?5 AND i.type = ?4 AND PUBLIC(i.owner)
      AND i.status IN ('ACTIVE', 'DEBATED') AND i.superseded = 0
      AND NOT EXISTS (SELECT 1 FROM finding s WHERE s.board = ?1 AND s.fingerprint = substr(?2, 1, 33) AND s.number = i.number)
    ORDER BY f.number DESC LIMIT 20);

-- name: count_items
UPDATE item SET tokens = c.value::bigint FROM json_members(?2) c
WHERE item.board = ?1 AND item.number = split_part(c.key, '@', 1)::bigint
  AND item.version = split_part(c.key, '@', 2)::bigint;

-- name: count_versions
UPDATE item_version SET tokens = c.value::bigint FROM json_members(?2) c
WHERE item_version.board = ?1 AND item_version.number = split_part(c.key, '@', 1)::bigint
  AND item_version.version = split_part(c.key, '@', 2)::bigint;

-- name: rule_changed
INSERT INTO rule_change(board, item, mark, revision)
SELECT ?1, c.key::bigint, c.value, ?3 FROM json_members(?2) c
ON CONFLICT (board, item) DO UPDATE SET mark = excluded.mark, revision = excluded.revision;

-- name: forgettable
SELECT i.number, i.type, i.author, i.created_at,
       bytes_of(i.text) + bytes_of(i.tags) + bytes_of(i.metadata)
       + coalesce((SELECT sum(bytes_of(v.text) + bytes_of(v.tags) + bytes_of(v.metadata))
                   FROM item_version v WHERE v.board = i.board AND v.number = i.number), 0)
FROM json_each(?2) w
JOIN item i ON i.board = ?1 AND i.number = w.value::bigint
JOIN json_members(?3) r ON r.key = i.type
WHERE i.zone = 'archive' AND i.deleted < 2 AND i.created_at <= r.value::bigint
  AND (SELECT max(e.at) FROM event e WHERE e.board = i.board AND e.item = i.number) <= r.value::bigint
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
  AND NOT EXISTS (SELECT 1 FROM obligation o
                  WHERE o.board = i.board AND o.item = i.number AND o.state IN ('outstanding', 'watching'))
  AND NOT EXISTS (SELECT 1 FROM edge e JOIN item s ON s.board = e.board AND s.number = e.source
                  WHERE e.board = i.board AND e.target = i.number AND s.zone <> 'archive')
  AND NOT EXISTS (SELECT 1 FROM edge e JOIN item t ON t.board = e.board AND t.number = e.target
                  WHERE e.board = i.board AND e.source = i.number AND t.zone <> 'archive'
                    AND (i.type = 'ANSWER'
                         OR e.kind IN ('critiques', 'supports', 'refutes', 'supersedes', 'analyzed_by')))
ORDER BY i.number;

-- name: former
-- PostgreSQL stops walking when the outer query has its rows.
WITH RECURSIVE chain(first, number, author) AS (
    SELECT i.number, i.number, i.author FROM item i
    WHERE i.board = ?1 AND i.number IN (SELECT value::bigint FROM json_each(?2))
    UNION
    SELECT c.first, t.number, c.author FROM chain c
    JOIN edge e ON e.board = ?1 AND e.source = c.number AND e.kind = 'supersedes'
    JOIN item t ON t.board = ?1 AND t.number = e.target AND t.author = c.author AND VISIBLE(t.owner, ?3)
)
SELECT first, count(*) - 1 FROM (SELECT first FROM chain LIMIT 5000) walked GROUP BY first HAVING count(*) > 1;

-- name: reservations_of_others
SELECT * FROM (
    SELECT r.pattern, r.shared, r.agent, r.lease, r.task,
           max(max(r.until, ?4 + r.length), coalesce(CASE WHEN t.state = 'WAITING' THEN t.until ELSE a.last_seen + r.length END, 0)) AS ends
    FROM reservation r LEFT JOIN agent a ON a.board = r.board AND a.name = r.agent
    LEFT JOIN task t ON t.board = r.board AND t.number = r.task AND t.lease = r.lease
    WHERE r.board = ?1 AND r.agent <> ?2) lasting
WHERE ends > ?3 ORDER BY lease, pattern;

-- name: stage_tasks
SELECT count(*), coalesce(max(required), 0),
       coalesce(max((state NOT IN ('COMPLETED', 'CANCELLED', 'FAULTED'))::int), 0),
       coalesce(max((required = 1 AND state NOT IN ('COMPLETED', 'CANCELLED'))::int), 0),
       coalesce(max((required = 1 AND state = 'FAULTED')::int), 0),
       coalesce(max((state IN ('RUNNING', 'WAITING', 'REVIEW'))::int), 0)
FROM task WHERE board = ?1 AND stage = ?2 AND stage > 0;

-- name: lease_take
-- Each machine has an index of its own, so the lease of indexers is one for each.
INSERT INTO lease(name, holder, until)
VALUES (CASE WHEN ?1 = 'archive-index' THEN ?1 || '@' || current_setting('blackboard.reader') ELSE ?1 END, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= ?4
RETURNING holder;

-- name: lease_of
-- Each machine notes for itself which of its indexes was fed last.
SELECT holder, until FROM lease
WHERE name = CASE WHEN ?1 = 'archive-fed' THEN ?1 || '@' || current_setting('blackboard.reader') ELSE ?1 END;

-- name: lease_put
INSERT INTO lease(name, holder, until)
VALUES (CASE WHEN ?1 = 'archive-fed' THEN ?1 || '@' || current_setting('blackboard.reader') ELSE ?1 END, ?2, ?3)
ON CONFLICT(name) DO UPDATE SET holder = excluded.holder, until = excluded.until;

-- name: lease_release
DELETE FROM lease
WHERE name = CASE WHEN ?1 = 'archive-index' THEN ?1 || '@' || current_setting('blackboard.reader') ELSE ?1 END
  AND holder = ?2;

-- name: items_archive
UPDATE item SET zone = 'archive', seq = json_extract(l.value, '$[1]')::bigint FROM json_each(?2) l
WHERE item.board = ?1 AND item.number = json_extract(l.value, '$[0]')::bigint;

-- name: items_forget
UPDATE item SET text = '', tags = '[]', metadata = '{}', tokens = 0, ttl = NULL, expires_at = NULL, deleted = 2,
       seq = json_extract(g.value, '$[1]')::bigint
FROM json_each(?2) g WHERE item.board = ?1 AND item.number = json_extract(g.value, '$[0]')::bigint;
