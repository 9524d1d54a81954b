-- Nothing changes here: PostgreSQL's schema gets a column for indexes that several machines share.
SELECT 1;
