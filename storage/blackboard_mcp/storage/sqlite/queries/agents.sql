-- Agents: when they were there, what they read, whom they act for. Values are bound by position: ?1, ?2, …

-- name: owner_of
-- The owner that an agent acts for.
SELECT owner FROM principal WHERE agent = ?1;

-- name: owners_of
-- The owners that some agents (a JSON list of names) act for, where that is not themselves.
SELECT agent, owner FROM principal WHERE agent IN (SELECT value FROM json_each(?1));

-- name: agents_of
-- The agents who act for an owner; the one with the owner's own name may act for somebody else.
SELECT agent FROM principal WHERE owner = ?1
UNION SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM principal p WHERE p.agent = ?1) ORDER BY 1;

-- name: owner_set
-- An agent acts for somebody.
INSERT INTO principal(agent, owner) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET owner = excluded.owner;

-- name: owner_drop
-- An agent acts for itself.
DELETE FROM principal WHERE agent = ?1;

-- name: agent_seen
-- An agent did something on a board at ?4. If it was away, it waits until ?5 for others who are.
INSERT INTO agent(board, name, posts, first_seen, last_seen, waits_until) VALUES (?1, ?2, ?3, ?4, ?4, ?5)
ON CONFLICT DO UPDATE SET posts = posts + excluded.posts, last_seen = max(last_seen, excluded.last_seen),
    waits_until = CASE WHEN excluded.last_seen - last_seen > excluded.waits_until - excluded.last_seen
                       THEN excluded.waits_until ELSE waits_until END;

-- name: agents_seen
-- Agents were there (a JSON list of [name, instant]) on a board where they count as away after ?3 without a call; those
-- that never did anything, owe nothing and have no turn are left out. So are those that the board lets only read: nobody
-- waits for what they cannot do.
INSERT INTO agent(board, name, posts, first_seen, last_seen, waits_until)
SELECT ?1, s.name, 0, s.at, s.at, s.at + ?3
FROM (SELECT json_extract(value, '$[0]') AS name, CAST(json_extract(value, '$[1]') AS INTEGER) AS at FROM json_each(?2)) s
WHERE (EXISTS (SELECT 1 FROM agent a WHERE a.board = ?1 AND a.name = s.name)
   OR EXISTS (SELECT 1 FROM obligation o WHERE o.board = ?1 AND o.agent = s.name AND o.state = 'outstanding')
   OR EXISTS (SELECT 1 FROM run_turn t INDEXED BY run_turn_of WHERE t.board = ?1 AND t.agent = s.name AND t.state = 'given'))
  AND NOT EXISTS (SELECT 1 FROM member m WHERE m.board = ?1 AND m.agent = s.name AND m.role IN ('observer', 'summariser'))
ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen),
    waits_until = CASE WHEN excluded.last_seen - last_seen > excluded.waits_until - excluded.last_seen
                       THEN excluded.waits_until ELSE waits_until END;

-- name: items_read
-- Items were read (a JSON list of [number, times, instant]). The order of the join is forced: the list first.
INSERT INTO item_use(board, number, reads, last_read)
SELECT ?1, i.number, CAST(json_extract(r.value, '$[1]') AS INTEGER), CAST(json_extract(r.value, '$[2]') AS INTEGER)
FROM json_each(?2) r CROSS JOIN item i ON i.board = ?1 AND i.number = json_extract(r.value, '$[0]')
WHERE true
ON CONFLICT DO UPDATE SET reads = reads + excluded.reads, last_read = max(last_read, excluded.last_read);

-- name: agents
-- Agents of a board by name.
SELECT name, posts, first_seen, last_seen FROM agent WHERE board = ?1 ORDER BY name;

-- name: agents_among
-- The names of a list (JSON) that the board knows.
SELECT name FROM agent WHERE board = ?1 AND name IN (SELECT value FROM json_each(?2));

-- name: look_known
-- 1 if an agent was let in on a board.
SELECT 1 FROM look WHERE board = ?1 AND name = ?2 LIMIT 1;

-- name: look_unknown
-- Agents of whose names it was not worked out yet how they look.
SELECT name FROM look WHERE board = ?1 AND look = '';

-- name: look_forget
-- A name does not look like that.
DELETE FROM look WHERE board = ?1 AND name = ?2 AND look = ?3;

-- name: look_taken
-- Agents whose names look like one of these (a JSON list).
SELECT name FROM look WHERE board = ?1 AND look IN (SELECT value FROM json_each(?2)) ORDER BY name LIMIT 1;

-- name: look_add
-- A name looks like that.
INSERT INTO look(board, name, look) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;
