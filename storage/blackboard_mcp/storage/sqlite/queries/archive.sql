-- What the search index has to learn, and what it should hold. Values are bound by position: ?1, ?2, …

-- name: outbox_add
-- The index has something to learn.
INSERT INTO outbox(board, number) VALUES (?1, ?2);

-- name: outbox_add_all
-- The same of items: a JSON list of [number, seq].
INSERT INTO outbox(board, number) SELECT ?1, CAST(json_extract(value, '$[0]') AS INTEGER) FROM json_each(?2) ORDER BY key;

-- name: outbox_oldest
-- The oldest outbox rows with the present state of their items, and whether the index should hold them.
SELECT o.id, b.id, i.number, i.seq, i.type, i.author, i.thread, i.tags, i.created_at, i.text,
       i.owner, i.zone = 'archive' AND i.deleted = 0
FROM (SELECT id, board, number FROM outbox ORDER BY id LIMIT ?1) o
JOIN board b ON b.no = o.board JOIN item i ON i.board = o.board AND i.number = o.number
ORDER BY o.id;

-- name: outbox_of_board
-- Archived items of a board that wait to be indexed, newest first, and that an agent may see.
SELECT DISTINCT i.number, i.text FROM outbox o INDEXED BY outbox_item
CROSS JOIN item i ON i.board = o.board AND i.number = o.number
WHERE o.board = ?1 AND i.zone = 'archive' AND i.deleted = 0 AND VISIBLE(i.owner, ?2)
ORDER BY i.number DESC LIMIT ?3;

-- name: outbox_done
-- The index has learnt these rows (a JSON list of ids); those that were still there.
DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?1)) RETURNING id;

-- name: outbox_empty
-- 1 if nothing waits for the index.
SELECT NOT EXISTS (SELECT 1 FROM outbox);

-- name: archived_keys
-- Every archived item that was not deleted, with its sequence.
SELECT b.id, i.number, i.seq FROM item i JOIN board b ON b.no = i.board
WHERE i.zone = 'archive' AND i.deleted = 0;

-- name: settled_keys
-- Every archived item that does not wait for the index, with its sequence.
SELECT b.id, i.number, i.seq FROM item i JOIN board b ON b.no = i.board
WHERE i.zone = 'archive' AND i.deleted = 0
  AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.board = i.board AND o.number = i.number);

-- name: outbox_items
-- The items that wait for the index.
SELECT DISTINCT b.id, o.number FROM outbox o JOIN board b ON b.no = o.board LIMIT ?1;

-- name: settled_sums
-- By board, sums over every archived item that does not wait for the index.
SELECT b.id, s.items, s.numbers, s.seqs, s.mixed
FROM (SELECT i.board AS board, count(*) AS items, sum(i.number) AS numbers, sum(i.seq) AS seqs,
             sum((i.number % ?1) * (i.seq % ?1) % ?2) AS mixed
      FROM item i WHERE i.zone = 'archive' AND i.deleted = 0
        AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.board = i.board AND o.number = i.number)
      GROUP BY i.board) s
JOIN board b ON b.no = s.board;

-- name: waiting_of_board
-- The numbers of what waits on a board for the index, newest first.
SELECT DISTINCT number FROM outbox WHERE board = ?1 ORDER BY number DESC LIMIT ?2;

-- name: waiting_items
-- The present state of items by number (a JSON list), newest first, and whether the index should hold them; of each
-- text so many characters, and how long it is.
SELECT i.number, i.seq, i.type, i.author, i.thread, i.tags, i.created_at,
       CASE WHEN i.zone = 'archive' AND i.deleted = 0 THEN substr(i.text, 1, ?3) END,
       i.zone = 'archive' AND i.deleted = 0, i.owner,
       CASE WHEN i.zone = 'archive' AND i.deleted = 0 THEN length(i.text) END
FROM item i WHERE i.board = ?1 AND i.number IN (SELECT value FROM json_each(?2))
ORDER BY i.number DESC;

-- name: archived_page
-- Archived items after a place, by board and number.
SELECT i.board, b.id, i.number, i.seq, i.type, i.author, i.thread, i.tags, i.created_at, i.text, i.owner
FROM item i JOIN board b ON b.no = i.board
WHERE i.zone = 'archive' AND i.deleted = 0 AND (i.board, i.number) > (?1, ?2)
ORDER BY i.board, i.number LIMIT ?3;

-- name: waiting_for_index
-- Counts the items that an agent may see and that the index has yet to learn of.
SELECT count(*) FROM outbox o INDEXED BY outbox_item CROSS JOIN item i ON i.board = o.board AND i.number = o.number
WHERE o.board = ?1 AND VISIBLE(i.owner, ?2);
