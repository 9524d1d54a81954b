-- Dead ends in other words: words of findings that fell are filled in, and tasks that failed are found by number
DELETE FROM finding WHERE fingerprint GLOB '~*';

CREATE INDEX task_failed ON task(board, number) WHERE dead_end <> '';
