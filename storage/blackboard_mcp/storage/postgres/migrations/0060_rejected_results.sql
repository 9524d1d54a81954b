-- The result that a reviewer rejected, of an attempt that ended so: what is debated of it ends with the task.
ALTER TABLE task_attempt ADD COLUMN IF NOT EXISTS result bigint NOT NULL DEFAULT 0;
