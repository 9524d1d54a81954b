-- Whether a board was put back from a copy, or brought in from a file, and nothing happened on it since: numbers that
-- follow may have been given elsewhere, so its first change leaves some out.
ALTER TABLE board ADD COLUMN copied INTEGER NOT NULL DEFAULT 0;
