-- How the names of those look who write on a board: no two may look alike. A name that was there before has an empty
-- look until somebody new comes; such names stay, whatever they look like.
CREATE TABLE look (
    board INTEGER NOT NULL,
    name TEXT NOT NULL,
    look TEXT NOT NULL,
    PRIMARY KEY (board, name, look)
) STRICT, WITHOUT ROWID;
CREATE INDEX look_of ON look(board, look);

INSERT INTO look(board, name, look) SELECT board, name, '' FROM agent;
