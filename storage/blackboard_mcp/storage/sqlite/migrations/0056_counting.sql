-- Nothing changes here: PostgreSQL counts new rows together for each statement, and the bytes of texts as given.
SELECT 1;
