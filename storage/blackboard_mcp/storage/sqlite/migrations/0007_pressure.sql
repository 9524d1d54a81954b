-- The open hot issue that says that more is protected than the budget allows; 0 while that is not so.
ALTER TABLE board ADD COLUMN pressure INTEGER NOT NULL DEFAULT 0;
