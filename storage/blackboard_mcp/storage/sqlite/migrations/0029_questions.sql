-- The questions of a board that wait for somebody's answer are found without going through all that was ever owed.
CREATE INDEX obligation_question ON obligation(board, item)
WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;
DROP VIEW asked;
CREATE VIEW asked(board, number) AS
SELECT DISTINCT board, item FROM obligation INDEXED BY obligation_question
WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;
