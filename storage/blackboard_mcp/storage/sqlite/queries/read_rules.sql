-- Read rules, and who reads what they keep. Values are bound by position: ?1, ?2, …

-- name: read_rules
-- The rules of the installation.
SELECT rules FROM read_rules;

-- name: read_rules_drop
-- Takes all rules away.
DELETE FROM read_rules;

-- name: read_rules_set
-- Sets the rules.
INSERT INTO read_rules(rules) VALUES (?1);

-- name: rule_readers_drop
-- Takes all readers away.
DELETE FROM rule_reader;

-- name: rule_readers_add
-- Adds readers from a list (JSON) of pairs of mark and principal.
INSERT OR IGNORE INTO rule_reader(mark, principal)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1);

-- name: principals
-- The owner for whom an agent acts, and its role on a board.
SELECT coalesce((SELECT owner FROM principal WHERE agent = ?2), ?2),
       (SELECT role FROM acting_role WHERE place = ?1 AND who = ?2);

-- name: viewers
-- The agents of a list (JSON), with the owner for whom each acts, its role on a board, and the rules.
SELECT a.value, coalesce((SELECT owner FROM principal WHERE agent = a.value), a.value),
       (SELECT role FROM acting_role WHERE place = (SELECT no FROM board WHERE id = ?1) AND who = a.value),
       (SELECT rules FROM read_rules)
FROM json_each(?2) a;

-- name: shown_role
-- The role that an agent's credential gave it last on a board.
SELECT s.role FROM board b JOIN shown_role s ON s.board = b.no AND s.agent = ?2 WHERE b.id = ?1;

-- name: shown_role_set
-- Records the role that an agent's credential gives it on a board.
INSERT INTO shown_role(board, agent, role) SELECT no, ?2, ?3 FROM board WHERE id = ?1
ON CONFLICT DO UPDATE SET role = excluded.role RETURNING 1;

-- name: shared_items
-- Items of a board after a number that everybody or a team sees, without what was forgotten: what read rules ask about.
SELECT number, type, key, tags, author, owner FROM item
WHERE board = ?1 AND (PUBLIC(owner) OR owner GLOB 'team:*') AND deleted < 2 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: bound_among
-- Items of a list (JSON) that are part of what the whole board sees, with what that is.
SELECT number, 'protected' FROM protected WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT root, 'a debate' FROM debate WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT critique, 'a debate' FROM debate_critique WHERE board = ?1 AND critique IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT answer, 'a debate' FROM debate_critique WHERE board = ?1 AND answer IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT gave_way_to, 'a debate' FROM debate WHERE board = ?1 AND gave_way_to IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT gave_way_to, 'a debate' FROM decision WHERE board = ?1 AND gave_way_to IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT item, 'duties' FROM obligation WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT item, 'endorsed' FROM endorsement WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT item, 'retracted' FROM retraction WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT source, 'retracted' FROM retraction WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT item, 'an agreement' FROM agreement WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT number, 'a request' FROM request WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT partial, 'a request' FROM request WHERE board = ?1 AND partial IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT problem, 'a run' FROM run WHERE board = ?1 AND problem IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT answer, 'a run' FROM run WHERE board = ?1 AND answer IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT item, 'a run' FROM run_turn WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT result, 'a task' FROM task WHERE board = ?1 AND result IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT item, 'a summary' FROM summary_request WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT source, 'an edge ' || kind FROM edge WHERE board = ?1 AND kind NOT IN ('replies_to', 'derived_from', 'depends_on')
  AND source IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT target, 'an edge ' || kind FROM edge WHERE board = ?1 AND kind NOT IN ('replies_to', 'derived_from', 'depends_on')
  AND target IN (SELECT value FROM json_each(?2));

-- name: kept_entry
-- Whether an entry with a mark and a key stands.
SELECT 1 FROM item WHERE board = ?1 AND owner = ?2 AND key = ?3;

-- name: items_keep
-- Items get marks of read rules: a JSON list of [number, seq, mark].
WITH moved(number, seq, mark) AS MATERIALIZED (
    SELECT CAST(json_extract(value, '$[0]') AS INTEGER), CAST(json_extract(value, '$[1]') AS INTEGER),
           json_extract(value, '$[2]')
    FROM json_each(?2)
)
UPDATE item SET owner = m.mark, seq = m.seq
FROM moved m WHERE item.board = ?1 AND item.number = m.number;

-- name: events_keep
-- The events of an item get its mark, and tell nobody any more.
UPDATE event INDEXED BY event_item SET owner = ?3, concerns = '[]' WHERE board = ?1 AND item = ?2;

-- name: concerns_keep
-- Nobody is told of the events of an item any more.
DELETE FROM concern WHERE board = ?1 AND item = ?2;

-- name: deliveries_keep
-- Drops what consumer groups handed out of the events of an item, since everybody sees what groups do.
DELETE FROM delivery WHERE board = ?1 AND seq IN (SELECT seq FROM event WHERE board = ?1 AND item = ?2);

-- name: deliveries_hide
-- Drops what consumer groups handed out of events that an agent may not see.
DELETE FROM delivery
WHERE EXISTS (SELECT 1 FROM event e WHERE e.board = delivery.board AND e.seq = delivery.seq AND NOT VISIBLE(e.owner, ?1));

-- name: mark_known
-- Marks (a JSON list) that items have.
INSERT OR IGNORE INTO kept_mark(mark) SELECT value FROM json_each(?1);

-- name: figures_drop
-- The counts of a board by kind, which are made anew.
DELETE FROM figure WHERE board = ?1;

-- name: figures_fill
-- Counts a board's items by kind.
INSERT INTO figure(board, owner, zone, type, status, items, tokens)
SELECT board, owner, zone, type, status, count(*), sum(tokens) FROM item
WHERE board = ?1 AND deleted < 2 GROUP BY board, owner, zone, type, status;
