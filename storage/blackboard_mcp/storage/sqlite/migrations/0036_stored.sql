-- How many bytes of texts, tags and metadata each agent has written that are kept, former versions included, with
-- 1,000 for each version besides; what all of a board have written stands under the name ''. Kept by the writes
-- themselves, so that an owner and a board can be held to a bound.
CREATE TABLE stored (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (board, agent)
) STRICT, WITHOUT ROWID;
INSERT INTO stored(board, agent, bytes)
SELECT v.board, v.written_by, sum(length(CAST(v.text AS BLOB)) + length(CAST(v.tags AS BLOB))
           + length(CAST(v.metadata AS BLOB)) + 1000)
FROM (SELECT board, written_by, text, tags, metadata FROM item
      UNION ALL SELECT board, written_by, text, tags, metadata FROM item_version) v
GROUP BY v.board, v.written_by;
INSERT INTO stored(board, agent, bytes) SELECT board, '', sum(bytes) FROM stored GROUP BY board;

CREATE TRIGGER stored_of_new AFTER INSERT ON item BEGIN
    INSERT INTO stored(board, agent, bytes)
    SELECT new.board, who.value, length(CAST(new.text AS BLOB)) + length(CAST(new.tags AS BLOB))
           + length(CAST(new.metadata AS BLOB)) + 1000
    FROM json_each(json_array(new.written_by, '')) who WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER stored_of_former AFTER INSERT ON item_version BEGIN
    INSERT INTO stored(board, agent, bytes)
    SELECT new.board, who.value, length(CAST(new.text AS BLOB)) + length(CAST(new.tags AS BLOB))
           + length(CAST(new.metadata AS BLOB)) + 1000
    FROM json_each(json_array(new.written_by, '')) who WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER stored_of_changed AFTER UPDATE OF text, tags, metadata, written_by ON item
WHEN old.text <> new.text OR old.tags <> new.tags OR old.metadata <> new.metadata OR old.written_by <> new.written_by
BEGIN
    UPDATE stored SET bytes = bytes - (length(CAST(old.text AS BLOB)) + length(CAST(old.tags AS BLOB))
                              + length(CAST(old.metadata AS BLOB)) + 1000)
    WHERE board = old.board AND agent IN (old.written_by, '');
    DELETE FROM stored WHERE board = old.board AND agent = old.written_by AND bytes = 0;
    INSERT INTO stored(board, agent, bytes)
    SELECT new.board, who.value, length(CAST(new.text AS BLOB)) + length(CAST(new.tags AS BLOB))
           + length(CAST(new.metadata AS BLOB)) + 1000
    FROM json_each(json_array(new.written_by, '')) who WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE INDEX principal_owner ON principal(owner);
