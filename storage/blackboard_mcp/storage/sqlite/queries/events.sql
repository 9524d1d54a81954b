-- The log of a board, whom it concerns, and the places kept in it. Values are bound by position: ?1, ?2, …

-- name: event_add
-- One line of the log.
INSERT INTO event(board, seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- name: concern_add
-- An event concerns an agent.
INSERT INTO concern(board, agent, seq, item) VALUES (?1, ?2, ?3, ?4);

-- name: unseen
-- News that an agent was not shown yet, after one sequence and up to another: ?5 are events that are news to nobody,
-- ?6 those that are news to those concerned alone, ?7 sequences that it was shown.
SELECT seq, item FROM event e
WHERE board = ?1 AND seq > ?2 AND seq <= ?3 AND agent <> ?4 AND VISIBLE(owner, ?4)
  AND event NOT IN (SELECT value FROM json_each(?5))
  AND (event NOT IN (SELECT value FROM json_each(?6)) AND (instr(data, '"to"') = 0 OR json_type(data, '$.to') IS NULL)
       OR EXISTS (SELECT 1 FROM json_each(e.concerns) c WHERE c.value = ?4))
  AND seq NOT IN (SELECT value FROM json_each(?7))
ORDER BY seq LIMIT ?8;

-- name: unseen_few
-- The events of others after one sequence and up to another that an agent may see, in order, with what tells whether they are
-- news to it: the type, whether they are made to somebody, and whom they concern.
SELECT seq, item, event, instr(data, '"to"') > 0 AND json_type(data, '$.to') IS NOT NULL, concerns
FROM event WHERE board = ?1 AND seq > ?2 AND seq <= ?3 AND agent <> ?4 AND VISIBLE(owner, ?4) ORDER BY seq;

-- name: shown
-- The sequences of a board that an agent was shown.
SELECT cursor, above, told FROM shown WHERE board = ?1 AND agent = ?2;

-- name: standing_of
-- The sequences of a board that an agent was shown (null without any), whether it may owe something, whether any request is
-- live, the last sequence before the change under way, whether read rules decide what agents see, the agent's owner, and
-- whether the board lets it only read. Who only reads owes nothing, nor does anybody on a board that takes no posts.
SELECT s.cursor, s.above, s.told,
       EXISTS (SELECT 1 FROM obligation INDEXED BY obligation_outstanding
               WHERE board = ?1 AND agent = ?2 AND state = 'outstanding')
           AND EXISTS (SELECT 1 FROM board WHERE no = ?1 AND lifecycle = 'open'),
       EXISTS (SELECT 1 FROM request INDEXED BY request_for WHERE board = ?1 AND live = 1)
           AND EXISTS (SELECT 1 FROM board WHERE no = ?1 AND lifecycle = 'open'),
       (SELECT seq FROM board WHERE no = ?1),
       EXISTS (SELECT 1 FROM read_rules), (SELECT owner FROM principal WHERE agent = ?2),
       EXISTS (SELECT 1 FROM member WHERE board = ?1 AND agent = ?2 AND role IN ('observer', 'summariser'))
FROM (SELECT 1) one LEFT JOIN shown s ON s.board = ?1 AND s.agent = ?2;

-- name: owing
-- Whether an agent may owe something, and whether any request is live, if either is so.
SELECT owes, asked FROM (
    SELECT EXISTS (SELECT 1 FROM obligation INDEXED BY obligation_outstanding
                   WHERE board = ?1 AND agent = ?2 AND state = 'outstanding') AS owes,
           EXISTS (SELECT 1 FROM request INDEXED BY request_for WHERE board = ?1 AND live = 1) AS asked)
WHERE owes OR asked;

-- name: shown_put
-- Writes the sequences of a board that an agent was shown by now.
INSERT INTO shown(board, agent, cursor, above, told) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET cursor = excluded.cursor, above = excluded.above, told = excluded.told;

-- name: events_after
-- The log after a sequence, up to another one, that an agent may see.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 AND VISIBLE(owner, ?3) AND seq <= ?5 ORDER BY seq LIMIT ?4;

-- name: log_stamps
-- The same events as `events_after`, with what tells whether a kept event is as it was.
SELECT seq, at, CASE WHEN PUBLIC(owner) AND tags = '[]' AND data = '{}' THEN ''
                     ELSE length(tags) || ' ' || length(data) || ' ' || owner END
FROM event WHERE board = ?1 AND seq > ?2 AND VISIBLE(owner, ?3) AND seq <= ?5 ORDER BY seq LIMIT ?4;

-- name: events_whole
-- The log after a sequence, whoever may see it.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: boards_beyond
-- The boards that stand beyond their sequence in a list (JSON pairs of board and sequence), in the order given.
SELECT b.id, b.no, b.seq FROM json_each(?1) p CROSS JOIN board b ON b.id = json_extract(p.value, '$[0]')
WHERE b.seq > json_extract(p.value, '$[1]') ORDER BY p.key;

-- name: amendments_of_item
-- The events of one item that an agent may see by which something of it changed beside its text, newest first.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event INDEXED BY event_item WHERE board = ?1 AND item = ?2 AND VISIBLE(owner, ?3)
  AND event IN ('item.changed', 'item.versioned')
  AND (json_type(data, '$.was') = 'object' OR json_type(data, '$.status') = 'array')
ORDER BY seq DESC LIMIT ?4;

-- name: events_of_item
-- The log of one item that an agent may see, newest first.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event INDEXED BY event_item WHERE board = ?1 AND item = ?2 AND VISIBLE(owner, ?3) ORDER BY seq DESC LIMIT ?4;

-- name: written_by
-- The agent that wrote the newest version of an entry that has several.
SELECT agent FROM event INDEXED BY event_item
WHERE board = ?1 AND item = ?2 AND event = 'item.versioned' ORDER BY seq DESC LIMIT 1;

-- name: pass_of_item
-- The event by which an item last left working memory.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event INDEXED BY event_item WHERE board = ?1 AND item = ?2
  AND event IN ('item.archived', 'item.expired', 'item.superseded', 'item.deleted') ORDER BY seq DESC LIMIT 1;
