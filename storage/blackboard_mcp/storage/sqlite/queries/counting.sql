-- Counting the texts of a board anew. Values are bound by position: ?1, ?2, …

-- name: counted_items
-- The texts of items that there are, after a number, with their hashes and counts: a page in order. ?3 is for the same of versions.
SELECT number, version, sha256, tokens, text FROM item
WHERE board = ?1 AND number > ?2 AND ?3 = ?3 AND deleted < 2 ORDER BY number LIMIT ?4;

-- name: counted_versions
-- The same of former versions, after a number and version.
SELECT number, version, sha256, tokens, text FROM item_version
WHERE board = ?1 AND (number, version) > (?2, ?3) AND deleted < 2 ORDER BY number, version LIMIT ?4;

-- name: count_items
-- New counts of items, in ?2 by number and version (1@2). One statement for many: each keeps a journal of its own.
UPDATE item SET tokens = json_extract(?2, '$."' || number || '@' || version || '"')
WHERE board = ?1 AND number IN (SELECT CAST(key AS INTEGER) FROM json_each(?2));

-- name: count_versions
-- The same of former versions.
UPDATE item_version SET tokens = json_extract(?2, '$."' || number || '@' || version || '"')
WHERE board = ?1 AND (number, version) IN (
    SELECT CAST(key AS INTEGER), CAST(substr(key, instr(key, '@') + 1) AS INTEGER) FROM json_each(?2));

-- name: counted_working
-- Tokens of working memory, and those of what not everybody sees.
SELECT coalesce(sum(tokens), 0), coalesce(sum(CASE WHEN HIDDEN(owner) THEN tokens ELSE 0 END), 0)
FROM item WHERE board = ?1 AND zone = 'working';
