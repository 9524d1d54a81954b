-- How much of working memory each agent has, kept by the writes themselves: a pass has to know who has too much.
CREATE TABLE share (
    board INTEGER NOT NULL,
    author TEXT NOT NULL,
    items INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (board, author)
) STRICT, WITHOUT ROWID;
INSERT INTO share(board, author, items, tokens)
SELECT board, author, count(*), sum(tokens) FROM item WHERE zone = 'working' GROUP BY board, author;

CREATE TRIGGER share_of_new AFTER INSERT ON item WHEN new.zone = 'working' BEGIN
    INSERT INTO share(board, author, items, tokens) VALUES (new.board, new.author, 1, new.tokens)
    ON CONFLICT DO UPDATE SET items = items + 1, tokens = tokens + excluded.tokens;
END;

CREATE TRIGGER share_of_changed AFTER UPDATE OF zone, tokens ON item
WHEN old.zone <> new.zone OR old.tokens <> new.tokens BEGIN
    UPDATE share SET items = items - 1, tokens = tokens - old.tokens
    WHERE old.zone = 'working' AND board = old.board AND author = old.author;
    DELETE FROM share WHERE board = old.board AND author = old.author AND items = 0;
    INSERT INTO share(board, author, items, tokens)
    SELECT new.board, new.author, 1, new.tokens WHERE new.zone = 'working'
    ON CONFLICT DO UPDATE SET items = items + 1, tokens = tokens + excluded.tokens;
END;
