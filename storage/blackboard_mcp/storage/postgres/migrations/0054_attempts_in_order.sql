-- Nothing changes here: SQLite's file gets the columns of a table in another order.
SELECT 1;
