-- The archive's index by words. Values are bound by name. A word is kept as "x" and its bytes in hexadecimal, so that the
-- tokenizer takes each for one word and nothing in a query for syntax.

-- name: make_life
-- What says which life of the index this is, and for which layout.
CREATE TABLE IF NOT EXISTS life(name TEXT NOT NULL, layout INTEGER NOT NULL);

-- name: make_windows
-- A stretch of a document's text.
CREATE TABLE IF NOT EXISTS passage(
    id INTEGER PRIMARY KEY, board TEXT NOT NULL, number INTEGER NOT NULL, part INTEGER NOT NULL, start INTEGER NOT NULL,
    seq INTEGER NOT NULL, type TEXT NOT NULL, author TEXT NOT NULL, mark TEXT NOT NULL, thread INTEGER NOT NULL, tags TEXT NOT NULL,
    created_us INTEGER NOT NULL, length INTEGER NOT NULL, words TEXT NOT NULL, UNIQUE(board, number, part)
);

-- name: make_threads
CREATE INDEX IF NOT EXISTS passage_thread ON passage(board, thread, number) WHERE part = 0;

-- name: make_words
-- Which stretches hold a word.
CREATE VIRTUAL TABLE IF NOT EXISTS said USING fts5(words, content='', tokenize='ascii');

-- name: life
SELECT name, layout FROM life;

-- name: begin_life
INSERT INTO life(name, layout) VALUES (:name, :layout);

-- name: seq
-- The state of a document that the index has.
SELECT seq FROM passage WHERE board = :board AND number = :number AND part = 0;

-- name: words_of
SELECT id, words FROM passage WHERE board = :board AND number = :number;

-- name: unsay
INSERT INTO said(said, rowid, words) VALUES ('delete', :id, :words);

-- name: forget
DELETE FROM passage WHERE board = :board AND number = :number;

-- name: add
INSERT INTO passage(board, number, part, start, seq, type, author, mark, thread, tags, created_us, length, words)
VALUES (:board, :number, :part, :start, :seq, :type, :author, :owner, :thread, :tags, :created_us, :length, :words);

-- name: say
INSERT INTO said(rowid, words) VALUES (:id, :words);

-- name: keys
SELECT board, number, seq FROM passage WHERE part = 0;

-- name: corpus
-- How many stretches a board has, and how long they are on average.
SELECT count(*), coalesce(avg(length), 0.0) FROM passage
WHERE board = :board AND mark IN (SELECT value FROM json_each(:marks));

-- name: marks
-- Who may see documents of a board, as marks.
SELECT DISTINCT mark FROM passage WHERE board = :board AND part = 0;

-- name: holding
-- The stretches of a board that hold a word.
SELECT passage.number FROM said JOIN passage ON passage.id = said.rowid
WHERE said MATCH :any AND passage.board = :board AND passage.mark IN (SELECT value FROM json_each(:marks));

-- name: search
-- The best stretches for any of the words, of documents that match the filters and are not in :beside.
SELECT passage.number, passage.part, passage.thread, passage.created_us, passage.start, passage.words
FROM said JOIN passage ON passage.id = said.rowid
WHERE said MATCH :any AND passage.board = :board AND passage.mark IN (SELECT value FROM json_each(:marks))
    AND (:types = '[]' OR passage.type IN (SELECT value FROM json_each(:types)))
    AND NOT EXISTS (SELECT 1 FROM json_each(:tags) wanted WHERE instr(passage.tags, wanted.value) = 0)
    AND (:author IS NULL OR passage.author = :author)
    AND (:thread IS NULL OR passage.thread = :thread)
    AND (:after IS NULL OR passage.created_us >= :after)
    AND (:before IS NULL OR passage.created_us < :before)
    AND (:among = '[]' OR passage.number IN (SELECT value FROM json_each(:among)))
    AND passage.number NOT IN (SELECT value FROM json_each(:beside))
ORDER BY said.rank, passage.number, passage.part LIMIT :most;

-- name: beside
-- The first stretches of the documents next to some (a JSON list) in their threads, that match the filters.
WITH kept AS (
    SELECT number, part, thread, created_us, start, words FROM passage
    WHERE board = :board AND part = 0 AND mark IN (SELECT value FROM json_each(:marks))
        AND thread IN (SELECT thread FROM passage
                       WHERE board = :board AND part = 0 AND number IN (SELECT value FROM json_each(:among)))
        AND (:types = '[]' OR type IN (SELECT value FROM json_each(:types)))
        AND NOT EXISTS (SELECT 1 FROM json_each(:tags) wanted WHERE instr(tags, wanted.value) = 0)
        AND (:author IS NULL OR author = :author)
        AND (:thread IS NULL OR thread = :thread)
        AND (:after IS NULL OR created_us >= :after)
        AND (:before IS NULL OR created_us < :before)
), placed AS (
    SELECT *, lag(number) OVER near AS former, lead(number) OVER near AS next FROM kept
    WINDOW near AS (PARTITION BY thread ORDER BY number)
)
SELECT number, part, thread, created_us, start, words FROM placed
WHERE former IN (SELECT value FROM json_each(:among)) OR next IN (SELECT value FROM json_each(:among));

-- name: merge
INSERT INTO said(said, rank) VALUES ('merge', 200);
