-- How many items there are of each kind, kept by the writes themselves: nobody has to count a board.
CREATE TABLE figure (
    board INTEGER NOT NULL,
    owner TEXT NOT NULL,
    zone TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    items INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (board, owner, zone, type, status)
) STRICT, WITHOUT ROWID;
INSERT INTO figure(board, owner, zone, type, status, items, tokens)
SELECT board, owner, zone, type, status, count(*), sum(tokens) FROM item GROUP BY board, owner, zone, type, status;

CREATE TRIGGER figure_of_new AFTER INSERT ON item BEGIN
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    VALUES (new.board, new.owner, new.zone, new.type, new.status, 1, new.tokens)
    ON CONFLICT DO UPDATE SET items = items + 1, tokens = tokens + excluded.tokens;
END;

CREATE TRIGGER figure_of_changed AFTER UPDATE OF zone, status, tokens ON item
WHEN old.zone <> new.zone OR old.status <> new.status OR old.tokens <> new.tokens BEGIN
    UPDATE figure SET items = items - 1, tokens = tokens - old.tokens
    WHERE board = old.board AND owner = old.owner AND zone = old.zone AND type = old.type AND status = old.status;
    DELETE FROM figure
    WHERE board = old.board AND owner = old.owner AND zone = old.zone AND type = old.type AND status = old.status
      AND items = 0;
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    VALUES (new.board, new.owner, new.zone, new.type, new.status, 1, new.tokens)
    ON CONFLICT DO UPDATE SET items = items + 1, tokens = tokens + excluded.tokens;
END;
