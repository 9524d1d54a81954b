-- What decides by which index entries are found whose keys match a glob. Values are bound by position: ?1, ?2, …

-- name: parts_counted
-- Counts the entries below a number that have each of some parts (a JSON list) in their keys, up to ?4.
SELECT w.value, (SELECT count(*) FROM (
    SELECT 1 FROM key_part p WHERE p.board = ?1 AND p.part = w.value AND p.number < ?3 LIMIT ?4))
FROM json_each(?2) w;

-- name: live_keys_counted
-- Counts the entries of working memory with a key in a range, up to ?4.
SELECT count(*) FROM (
    SELECT 1 FROM item INDEXED BY item_live_key
    WHERE board = ?1 AND key IS NOT NULL AND zone = 'working' AND key >= ?2 AND key < ?3 LIMIT ?4);

-- name: keys_counted
-- Counts the entries with a key in a range that an agent may see, up to ?5.
SELECT count(*) FROM (
    SELECT 1 FROM item INDEXED BY item_key
    WHERE board = ?1 AND FOUND(owner, ?4) AND key IS NOT NULL AND key >= ?2 AND key < ?3 LIMIT ?5);
