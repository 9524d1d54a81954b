-- The log of a board, whom it concerns, and the places kept in it. Values are bound by position: ?1, ?2, …

-- name: event_add
-- One line of the log.
INSERT INTO event(board, seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- name: concern_add
-- An event concerns an agent.
INSERT INTO concern(board, agent, seq, item) VALUES (?1, ?2, ?3, ?4);

-- name: concerns_after
-- What concerned an agent after a sequence: items, newest first.
SELECT DISTINCT c.item FROM concern c JOIN item i ON i.board = c.board AND i.number = c.item
WHERE c.board = ?1 AND c.agent = ?2 AND c.seq > ?3 AND VISIBLE(i.owner, ?2)
ORDER BY c.seq DESC LIMIT 50;

-- name: events_after
-- The log after a sequence that an agent may see.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 AND VISIBLE(owner, ?3) ORDER BY seq LIMIT ?4;

-- name: events_whole
-- The log after a sequence, whoever may see it.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: boards_beyond
-- Of boards and sequences (a JSON list of pairs), the boards that stand beyond them, in the order given.
SELECT b.id, b.no, b.seq FROM json_each(?1) p CROSS JOIN board b ON b.id = json_extract(p.value, '$[0]')
WHERE b.seq > json_extract(p.value, '$[1]') ORDER BY p.key;

-- name: events_of_item
-- The log of one item that an agent may see, newest first.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event INDEXED BY event_item WHERE board = ?1 AND item = ?2 AND VISIBLE(owner, ?3) ORDER BY seq DESC LIMIT ?4;

-- name: written_by
-- Who wrote the newest version of an entry that has several.
SELECT agent FROM event INDEXED BY event_item
WHERE board = ?1 AND item = ?2 AND event = 'item.versioned' ORDER BY seq DESC LIMIT 1;

-- name: pass_of_item
-- The event by which an item last left working memory.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event INDEXED BY event_item WHERE board = ?1 AND item = ?2
  AND event IN ('item.archived', 'item.expired', 'item.superseded', 'item.deleted') ORDER BY seq DESC LIMIT 1;
