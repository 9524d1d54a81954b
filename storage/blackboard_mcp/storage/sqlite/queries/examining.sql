-- What is looked at when a file is examined. Values are bound by position: ?1, ?2, …

-- name: examine_gaps
-- Boards whose log is not numbered from 1 to the board's sequence, but for what events say was left out.
SELECT b.id, b.seq - coalesce(sum(CASE WHEN e.event = 'board.restored'
                                  THEN e.seq - 1 - json_extract(e.data, '$.after') END), 0) AS counted,
       count(e.seq), coalesce(max(e.seq), 0)
FROM board b LEFT JOIN event e ON e.board = b.no
GROUP BY b.no HAVING count(e.seq) <> counted OR coalesce(max(e.seq), 0) <> b.seq
ORDER BY b.id;

-- name: examine_boards
-- The boards by id.
SELECT id FROM board ORDER BY id;

-- name: examine_last_event
-- The time of the last event on any board.
SELECT max(e.at) FROM board b JOIN event e ON e.board = b.no AND e.seq = b.seq;

-- name: examine_leases
-- Leases that processes share, and until when they are taken.
SELECT name, holder, until FROM lease ORDER BY name;

-- name: examine_leases_free
-- Forget leases that nobody can have taken rightly: they end after ?1.
DELETE FROM lease WHERE until > ?1;

-- name: examine_outbox
-- The count of changes that wait for the archive's index, and the time of the last event of the oldest.
SELECT count(*), (
    SELECT e.at FROM event e JOIN (SELECT board, number FROM outbox ORDER BY id LIMIT 1) o
    ON e.board = o.board AND e.item = o.number ORDER BY e.seq DESC LIMIT 1
) FROM outbox;

-- name: examine_texts
-- Texts with their hashes, after a place.
SELECT i.rowid, b.id, i.number, i.type, i.version, i.text, i.sha256
FROM item i JOIN board b ON b.no = i.board WHERE i.rowid > ?1 ORDER BY i.rowid LIMIT ?2;

-- name: examine_former_texts
-- Texts of former versions with their hashes, after a place.
SELECT v.rowid, b.id, v.number, i.type, v.version, v.text, v.sha256
FROM item_version v JOIN board b ON b.no = v.board JOIN item i ON i.board = v.board AND i.number = v.number
WHERE v.rowid > ?1 ORDER BY v.rowid LIMIT ?2;

-- name: examine_forgotten
-- 1 if a version of an item was forgotten and the log says so.
SELECT 1 FROM board b JOIN event e INDEXED BY event_item ON e.board = b.no AND e.item = ?2
WHERE b.id = ?1 AND e.event = 'item.forgotten' AND e.version >= ?3
  AND (EXISTS (SELECT 1 FROM item i WHERE i.board = b.no AND i.number = ?2 AND i.version = ?3 AND i.deleted = 2)
       OR EXISTS (SELECT 1 FROM item_version v
                  WHERE v.board = b.no AND v.number = ?2 AND v.version = ?3 AND v.deleted = 2)) LIMIT 1;

-- name: examine_tokens
-- Counts the access tokens that are good at ?1.
SELECT count(*) FROM token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?1);

-- name: examine_stored
-- The bytes that each owner, and under '' everybody, keeps on each board.
SELECT b.id, b.config, coalesce(p.owner, s.agent), sum(s.bytes)
FROM stored s CROSS JOIN board b ON b.no = s.board LEFT JOIN principal p ON p.agent = s.agent
GROUP BY 1, 3 ORDER BY 1, 3;

-- name: examine_kept
-- The bytes that all keep on all boards, and the time of the first item.
SELECT (SELECT sum(bytes) FROM stored WHERE agent = ''), (SELECT min(created_at) FROM item);

-- name: examine_written
-- The bytes that each agent wrote on each board after ?1 and that are kept; most first.
SELECT b.id, v.written_by, sum(length(CAST(v.text AS BLOB)) + length(CAST(v.tags AS BLOB))
                               + length(CAST(v.metadata AS BLOB)) + 1000) AS size
FROM (SELECT board, written_by, text, tags, metadata FROM item WHERE written_at > ?1
      UNION ALL SELECT board, written_by, text, tags, metadata FROM item_version WHERE written_at > ?1) v
JOIN board b ON b.no = v.board GROUP BY 1, 2 ORDER BY size DESC, 1, 2;
