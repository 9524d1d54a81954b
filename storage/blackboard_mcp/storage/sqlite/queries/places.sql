-- Places in the logs of boards, and boards that were put back from a copy. Values are bound by position: ?1, ?2, …

-- name: boards_copied
-- All boards are copies from now on.
UPDATE board SET copied = 1;

-- name: board_copied
-- A board is a copy (?2 = 1), or went on as itself.
UPDATE board SET copied = ?2 WHERE no = ?1;

-- name: event_from
-- The first event of a log at a sequence or after it; with the number before those it says were left out.
SELECT seq, CASE WHEN event = 'board.restored' THEN CAST(json_extract(data, '$.after') AS INTEGER) END FROM event
WHERE board = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1;

-- name: log_reach
-- The last of so many (?3) events after a sequence: where no number is left out, the one so many further.
SELECT coalesce(
    (SELECT seq FROM event WHERE board = ?1 AND seq = ?2 + ?3),
    (SELECT max(seq) FROM (SELECT seq FROM event WHERE board = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3)));
