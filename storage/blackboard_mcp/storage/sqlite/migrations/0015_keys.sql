-- By what a glob finds entries newest first, whatever else stands on the board: the segments of their keys, and how many
-- colons a key has (':2'), which no segment can look like. What it says follows from the keys, which never change.
CREATE TABLE key_part (
    board INTEGER NOT NULL,
    part TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, part, number)
) STRICT, WITHOUT ROWID;
INSERT INTO key_part(board, part, number)
SELECT DISTINCT i.board, p.value, i.number FROM item i, json_each('["' || replace(i.key, ':', '","') || '"]') p
WHERE i.key IS NOT NULL
UNION ALL
SELECT board, ':' || (length(key) - length(replace(key, ':', ''))), number FROM item WHERE key IS NOT NULL;

CREATE TRIGGER key_parts AFTER INSERT ON item WHEN new.key IS NOT NULL BEGIN
    INSERT INTO key_part(board, part, number)
    SELECT DISTINCT new.board, p.value, new.number FROM json_each('["' || replace(new.key, ':', '","') || '"]') p
    UNION ALL
    SELECT new.board, ':' || (length(new.key) - length(replace(new.key, ':', ''))), new.number;
END;

CREATE INDEX item_keyed ON item(board, number) WHERE key IS NOT NULL;
CREATE INDEX item_live_key ON item(board, key, number) WHERE key IS NOT NULL AND zone = 'working';
