-- Less room for recognising what was said before: 33 characters of a fingerprint, 16 of a hash in an index, tell
-- texts apart as well.
UPDATE finding SET fingerprint = substr(fingerprint, 1, 33) WHERE length(fingerprint) > 33;
DROP INDEX IF EXISTS item_said;
CREATE INDEX item_said ON item(board, substr(sha256, 1, 16), author)
    WHERE key IS NULL AND type NOT IN ('LOG', 'RESULT', 'SUMMARY');
