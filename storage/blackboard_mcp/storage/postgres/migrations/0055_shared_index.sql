-- The state in use of an index that several machines share.
ALTER TABLE index_reader ADD COLUMN state text COLLATE "C" NOT NULL DEFAULT '';
