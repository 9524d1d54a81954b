-- Less room for recognising what was said before: 33 characters of a fingerprint, 16 of a hash in an index, tell
-- texts apart as well.
CREATE TABLE finding_short (
    board INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, fingerprint, number)
) STRICT, WITHOUT ROWID;
INSERT INTO finding_short SELECT board, substr(fingerprint, 1, 33), number FROM finding;
DROP TABLE finding;
ALTER TABLE finding_short RENAME TO finding;
DROP INDEX IF EXISTS item_said;
CREATE INDEX item_said ON item(board, substr(sha256, 1, 16), author)
    WHERE key IS NULL AND type NOT IN ('LOG', 'RESULT', 'SUMMARY');
