-- What the guard holds, and by what. Values are bound by position: ?1, ?2, …

-- name: protected_among
-- The items of a list (JSON) that may not leave.
SELECT DISTINCT CAST(w.value AS INTEGER) FROM json_each(?2) w
WHERE EXISTS (SELECT 1 FROM protected p WHERE p.board = ?1 AND p.number = w.value);

-- name: protected_figures
-- The items and tokens of working memory that may not leave.
SELECT count(*), coalesce(sum(tokens), 0) FROM item
WHERE board = ?1 AND number IN (SELECT number FROM protected WHERE board = ?1) AND zone = 'working';

-- name: protected_figures_visible
-- The same of what an agent may see.
SELECT count(*), coalesce(sum(tokens), 0) FROM item
WHERE board = ?1 AND number IN (SELECT number FROM protected WHERE board = ?1) AND zone = 'working'
  AND VISIBLE(owner, ?2);

-- name: held_add
-- Items are held: a JSON list of [number, debate, source, kind, target, depth].
INSERT INTO held(board, number, debate, source, kind, target, depth)
SELECT ?1, CAST(json_extract(value, '$[0]') AS INTEGER), CAST(json_extract(value, '$[1]') AS INTEGER), CAST(json_extract(value, '$[2]') AS INTEGER),
       json_extract(value, '$[3]'), CAST(json_extract(value, '$[4]') AS INTEGER), CAST(json_extract(value, '$[5]') AS INTEGER)
FROM json_each(?2);

-- name: held
-- The items of a list (JSON) that debates hold.
SELECT number, debate, depth FROM held WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: held_drop
-- A debate, which is closed, holds nothing more; tells of each item that it held whether another debate is open.
DELETE FROM held WHERE board = ?1 AND debate = ?2
RETURNING number, EXISTS (SELECT 1 FROM debate d INDEXED BY debate_open WHERE d.board = ?1 AND d.state = 'OPEN');

-- name: held_clear
-- No debate holds anything.
DELETE FROM held;

-- name: holding
-- The items of a list (JSON) that debates hold or are about, by open debate, the debated item last.
SELECT number, debate, 0 AS about FROM held WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT root, id, 1 FROM debate INDEXED BY debate_root
WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2)) AND state = 'OPEN'
UNION ALL
SELECT c.critique, c.debate, 1 FROM debate_critique c INDEXED BY debate_critique_item
CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique IN (SELECT value FROM json_each(?2)) AND d.state = 'OPEN'
ORDER BY about, 2 DESC;

-- name: root_of_debate
-- The item that a debate is about.
SELECT i.number, i.type FROM debate d JOIN item i ON i.board = d.board AND i.number = d.root
WHERE d.board = ?1 AND d.id = ?2;

-- name: held_for
-- For those of some items (a JSON list) that debates hold: how far, and the root of the debate.
SELECT h.number, h.depth, d.root, i.type
FROM held h CROSS JOIN debate d ON d.board = h.board AND d.id = h.debate
CROSS JOIN item i ON i.board = d.board AND i.number = d.root
WHERE h.board = ?1 AND h.number IN (SELECT value FROM json_each(?2));

-- name: chains
-- The edges from a debate to each of some items (a JSON list) it holds, at most ?3 of them, in order.
WITH RECURSIVE up(item, number, source, kind, target, step) AS (
    SELECT number, number, source, kind, target, 1 FROM held
    WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND kind <> ''
    UNION ALL
    SELECT u.item, h.number, h.source, h.kind, h.target, u.step + 1
    FROM up u CROSS JOIN held h ON h.board = ?1 AND h.kind <> ''
         AND h.number = CASE u.number WHEN u.source THEN u.target ELSE u.source END
    WHERE u.step < ?3
)
SELECT item, source, kind, target FROM up ORDER BY item, step DESC;

-- name: debated_for
-- The same with the root of the debate, newest first.
SELECT a.number, d.root, i.type FROM (
    SELECT root AS number, id FROM debate INDEXED BY debate_root
    WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2))
    UNION
    SELECT critique, debate FROM debate_critique INDEXED BY debate_critique_item
    WHERE board = ?1 AND critique IN (SELECT value FROM json_each(?2))
) a
CROSS JOIN debate d ON d.board = ?1 AND d.id = a.id AND d.state = 'OPEN'
CROSS JOIN item i ON i.board = ?1 AND i.number = d.root
ORDER BY d.id DESC;

-- name: debated_anywhere
-- The items that open debates are about, on every board.
SELECT board, root AS number, id FROM debate INDEXED BY debate_open WHERE state = 'OPEN'
UNION
SELECT d.board, c.critique, d.id FROM debate d INDEXED BY debate_open
CROSS JOIN debate_critique c ON c.board = d.board AND c.debate = d.id
WHERE d.state = 'OPEN'
ORDER BY 1, 3, 2;

-- name: edges_to_free
-- Edges that touch some items (a JSON list) and whose other end no debate holds, where whoever sees that end sees
-- the item: what is hidden leads nowhere that others see. The order of the joins is forced: edges first.
SELECT e.source, e.kind, e.target FROM edge e
CROSS JOIN item near ON near.board = ?1 AND near.number = e.source
CROSS JOIN item far ON far.board = ?1 AND far.number = e.target
WHERE e.board = ?1 AND e.source IN (SELECT value FROM json_each(?2)) AND SHARED(near.owner, far.owner)
  AND NOT EXISTS (SELECT 1 FROM held h WHERE h.board = ?1 AND h.number = e.target)
UNION ALL
SELECT e.source, e.kind, e.target FROM edge e INDEXED BY edge_target
CROSS JOIN item near ON near.board = ?1 AND near.number = e.target
CROSS JOIN item far ON far.board = ?1 AND far.number = e.source
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND SHARED(near.owner, far.owner)
  AND NOT EXISTS (SELECT 1 FROM held h WHERE h.board = ?1 AND h.number = e.source);

-- name: edges_from_held
-- Edges that touch some items (a JSON list) and whose other end a debate holds, with that end's hold, where whoever
-- sees the item sees that end.
SELECT e.source, e.kind, e.target, h.number, h.debate, h.depth
FROM edge e CROSS JOIN held h ON h.board = ?1 AND h.number = e.target
CROSS JOIN item near ON near.board = ?1 AND near.number = e.target
CROSS JOIN item far ON far.board = ?1 AND far.number = e.source
WHERE e.board = ?1 AND e.source IN (SELECT value FROM json_each(?2)) AND SHARED(near.owner, far.owner)
UNION ALL
SELECT e.source, e.kind, e.target, h.number, h.debate, h.depth
FROM edge e INDEXED BY edge_target CROSS JOIN held h ON h.board = ?1 AND h.number = e.source
CROSS JOIN item near ON near.board = ?1 AND near.number = e.source
CROSS JOIN item far ON far.board = ?1 AND far.number = e.target
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND SHARED(near.owner, far.owner);

-- name: shared_pairs
-- The pairs of a list (JSON, [near, far]) in which whoever sees the second item sees the first.
SELECT near.number, far.number FROM json_each(?2) w
CROSS JOIN item near ON near.board = ?1 AND near.number = json_extract(w.value, '$[0]')
CROSS JOIN item far ON far.board = ?1 AND far.number = json_extract(w.value, '$[1]')
WHERE SHARED(near.owner, far.owner);

-- name: share_beside_others
-- The tokens of some agents (a JSON list) in working memory, if others than they and the server (?3) have something there.
SELECT coalesce((SELECT sum(tokens) FROM share WHERE board = ?1 AND author IN (SELECT value FROM json_each(?2))), 0)
WHERE EXISTS (SELECT 1 FROM share
              WHERE board = ?1 AND author <> ?3 AND author NOT IN (SELECT value FROM json_each(?2)));

-- name: held_on_account
-- Tokens that may not leave on the account of some agents (a JSON list); of what others posted for
-- everybody one in ?3 counts.
WITH mine(agent) AS (SELECT value FROM json_each(?2)),
account(number) AS (
    SELECT h.number FROM held h CROSS JOIN debate d ON d.board = h.board AND d.id = h.debate
    WHERE h.board = ?1 AND d.opened_by IN (SELECT agent FROM mine)
    UNION
    SELECT h.number FROM held h CROSS JOIN item i ON i.board = h.board AND i.number = h.number
    WHERE h.board = ?1 AND i.author IN (SELECT agent FROM mine)
    UNION
    SELECT o.item FROM mine CROSS JOIN obligation o ON o.board = ?1 AND o.agent = mine.agent
    WHERE o.state = 'outstanding' AND o.duty = 'acknowledge' AND o.debate = 0
    UNION
    SELECT g.item FROM agreement g CROSS JOIN obligation o INDEXED BY obligation_item
      ON o.board = g.board AND o.item = g.item AND o.state = 'outstanding' AND o.duty = 'agree'
    WHERE g.board = ?1 AND g.asked_by IN (SELECT agent FROM mine)
    UNION
    SELECT r.number FROM mine CROSS JOIN request r ON r.board = ?1 AND r.asker = mine.agent AND r.live = 1
    UNION
    SELECT number FROM item
    WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED')
      AND author IN (SELECT agent FROM mine)
    UNION
    SELECT number FROM item
    WHERE board = ?1 AND author IN (SELECT agent FROM mine)
      AND number IN (SELECT number FROM exempt WHERE board = ?1 UNION SELECT number FROM asked WHERE board = ?1)
)
SELECT coalesce(sum(CASE WHEN i.author IN (SELECT agent FROM mine) THEN i.tokens
                         WHEN PUBLIC(i.owner) THEN i.tokens / ?3 ELSE 0 END), 0)
FROM account a CROSS JOIN item i ON i.board = ?1 AND i.number = a.number
WHERE i.zone = 'working';

-- name: chosen_among
-- The items of a list (JSON) that their authors chose to keep: by importance, or by asking somebody.
SELECT number FROM exempt WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))
UNION
SELECT number FROM asked WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: chosen_on_account
-- The same of what some agents (a JSON list) posted: tokens, and whether an agent (?3) may know of it; longest first.
SELECT i.number, i.type, i.tokens, VISIBLE(i.owner, ?3)
FROM (SELECT DISTINCT number FROM (
    SELECT number FROM exempt WHERE board = ?1 UNION ALL SELECT number FROM asked WHERE board = ?1)) c
CROSS JOIN item i ON i.board = ?1 AND i.number = c.number
WHERE i.zone = 'working' AND i.author IN (SELECT value FROM json_each(?2))
ORDER BY i.tokens DESC, i.number;
