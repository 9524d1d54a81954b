-- A content that an operator's rules had forgotten: `deleted` is 2 there, in `item` and `item_version` alike, the text
-- is empty, and the sha256 stays that of what was posted.

-- Tombstones of entries whose former versions are kept.
CREATE INDEX item_tombstone ON item(board, number) WHERE zone = 'archive' AND deleted = 1;

CREATE TRIGGER stored_of_forgotten AFTER UPDATE OF text, tags, metadata ON item_version
WHEN old.text <> new.text OR old.tags <> new.tags OR old.metadata <> new.metadata
BEGIN
    UPDATE stored SET bytes = bytes
        - length(CAST(old.text AS BLOB)) - length(CAST(old.tags AS BLOB)) - length(CAST(old.metadata AS BLOB))
        + length(CAST(new.text AS BLOB)) + length(CAST(new.tags AS BLOB)) + length(CAST(new.metadata AS BLOB))
    WHERE board = new.board AND agent IN (new.written_by, '');
END;
