-- Writes to the files of a board's workspace, each with the whole content after it, deflated (empty for a deleted file).
-- `before` is the file's revision before it, 0 for none; `lines` is NULL for what is not text; `folded` is the path as
-- a file system sees it that does not tell case apart.
CREATE TABLE artifact_revision (
    board INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    path TEXT NOT NULL,
    folded TEXT NOT NULL,
    op TEXT NOT NULL,
    before INTEGER NOT NULL,
    size INTEGER NOT NULL,
    lines INTEGER,
    blob TEXT NOT NULL,
    agent TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, revision)
) STRICT;
CREATE INDEX artifact_revision_path ON artifact_revision(board, path, revision);

-- The last revision of each path, kept by the writes themselves.
CREATE TABLE artifact (
    board INTEGER NOT NULL,
    path TEXT NOT NULL,
    folded TEXT NOT NULL,
    revision INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    PRIMARY KEY (board, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_folded ON artifact(board, folded) WHERE gone = 0;

CREATE TRIGGER artifact_of_revision AFTER INSERT ON artifact_revision BEGIN
    INSERT INTO artifact(board, path, folded, revision, gone)
    VALUES (new.board, new.path, new.folded, new.revision, new.op = 'deleted')
    ON CONFLICT DO UPDATE SET revision = excluded.revision, gone = excluded.gone
    WHERE excluded.revision > revision;
    INSERT INTO stored(board, agent, bytes)
    SELECT new.board, who.value, length(new.body) + length(CAST(new.message AS BLOB)) + 1000
    FROM json_each(json_array(new.agent, '')) who WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
