-- Agreement to items: who was asked, and who agreed. Values are bound by position: ?1, ?2, …

-- name: agreement_put
-- The author of an item asks for agreement.
INSERT INTO agreement(board, item, asked_by, enough, reached, asked_at) VALUES (?1, ?2, ?3, ?4, 0, ?5)
ON CONFLICT DO UPDATE SET asked_by = excluded.asked_by, enough = excluded.enough, reached = 0,
                          asked_at = excluded.asked_at;

-- name: agreement_reached
-- Ends an agreement: enough agreed, or the text is another one now.
UPDATE agreement SET reached = ?3 WHERE board = ?1 AND item = ?2;

-- name: agreements
-- The items of a list (JSON) that agreement was asked to.
SELECT item, asked_by, enough, reached FROM agreement
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2));

-- name: agreeing
-- The agents that were asked to agree to items (a JSON list), in the order of asking, and whether they agreed.
SELECT item, agent, duty, state, debate, reason, since FROM obligation INDEXED BY obligation_item
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND duty = 'agree' ORDER BY item, since, agent;

-- name: present
-- Agents that were on a board since an instant and act for another owner than ?3, last seen first; without the server
-- (?4) and those that may only look on.
SELECT a.name FROM agent a LEFT JOIN principal p ON p.agent = a.name
LEFT JOIN member m ON m.board = a.board AND m.agent = a.name
WHERE a.board = ?1 AND a.last_seen >= ?2 AND COALESCE(p.owner, a.name) <> ?3 AND a.name <> ?4
  AND COALESCE(m.role, '') NOT IN ('observer', 'summariser')
ORDER BY a.last_seen DESC, a.name LIMIT ?5;

-- name: agreeing_and_absent
-- Agents that were asked to agree at ?2 or before and were last there then or before, while the asker was there
-- since and waits for nobody longer than ?4, or three days have passed; oldest first.
SELECT o.agent, o.item, o.duty, o.state, o.debate, o.reason, o.since
FROM obligation o INDEXED BY obligation_agreeing
CROSS JOIN agreement g ON g.board = o.board AND g.item = o.item
CROSS JOIN agent w ON w.board = o.board AND w.name = g.asked_by
LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
WHERE o.board = ?1 AND o.state = 'outstanding' AND o.duty = 'agree' AND o.since <= ?2
  AND coalesce(a.last_seen, 0) <= ?2 AND w.last_seen > ?2
  AND (w.waits_until <= ?4 OR max(o.since, coalesce(a.last_seen, 0)) <= ?4 - 259200000000)
ORDER BY o.since, o.agent, o.item LIMIT ?3;

-- name: agreements_lapsing
-- Boards where at ?1 somebody who was asked to agree has been away for so long (?2 by default, 0: for ever) that it
-- goes on without them, while who asked was there for as long; boards in the state ?3 are left as they are. Since ?4 calls are taken.
WITH rule(no, id, presence) AS (
    SELECT no, id, coalesce(json_extract(config, '$.presence_seconds'), ?2) * 1000000 FROM board
    WHERE lifecycle <> ?3 AND no IN (SELECT board FROM obligation INDEXED BY obligation_agreeing
                                     WHERE state = 'outstanding' AND duty = 'agree')
), there(board) AS (
    SELECT DISTINCT board FROM agent INDEXED BY agent_there WHERE last_seen > ?1 - (SELECT max(presence) FROM rule)
)
SELECT DISTINCT r.id FROM there t CROSS JOIN rule r ON r.no = t.board
CROSS JOIN obligation o INDEXED BY obligation_outstanding ON o.board = r.no
CROSS JOIN agreement g ON g.board = o.board AND g.item = o.item
CROSS JOIN agent w ON w.board = o.board AND w.name = g.asked_by
LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
WHERE r.presence > 0 AND r.presence + ?4 <= ?1 AND o.state = 'outstanding' AND o.duty = 'agree'
  AND max(o.since, coalesce(a.last_seen, 0)) + r.presence <= ?1 AND w.last_seen + r.presence > ?1
  AND (w.waits_until <= ?1 OR max(o.since, coalesce(a.last_seen, 0)) <= ?1 - 259200000000);
