-- What an agent said before, found by its text; what happens may happen again in the same words.
CREATE INDEX item_said ON item(board, sha256, author)
WHERE key IS NULL AND type NOT IN ('LOG', 'RESULT', 'SUMMARY');

-- Findings are recognised by what they say but for numbers as well; filled in when an older file is opened.
DELETE FROM finding;
