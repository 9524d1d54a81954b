-- Nothing changes here: PostgreSQL adds up for each statement what is counted of new rows.
SELECT 1;
