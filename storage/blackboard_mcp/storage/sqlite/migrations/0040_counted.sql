-- What was forgotten is counted no more, neither by kind nor in its board's archive.
DROP TRIGGER figure_of_new;
CREATE TRIGGER figure_of_new AFTER INSERT ON item WHEN new.deleted < 2 BEGIN
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    VALUES (new.board, new.owner, new.zone, new.type, new.status, 1, new.tokens)
    ON CONFLICT DO UPDATE SET items = items + 1, tokens = tokens + excluded.tokens;
END;

DROP TRIGGER figure_of_changed;
CREATE TRIGGER figure_of_changed AFTER UPDATE OF zone, status, tokens, deleted ON item
WHEN old.zone <> new.zone OR old.status <> new.status OR old.tokens <> new.tokens
  OR (old.deleted = 2) <> (new.deleted = 2) BEGIN
    UPDATE figure SET items = items - 1, tokens = tokens - old.tokens
    WHERE board = old.board AND owner = old.owner AND zone = old.zone AND type = old.type AND status = old.status
      AND old.deleted < 2;
    DELETE FROM figure
    WHERE board = old.board AND owner = old.owner AND zone = old.zone AND type = old.type AND status = old.status
      AND items = 0;
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    SELECT new.board, new.owner, new.zone, new.type, new.status, 1, new.tokens WHERE new.deleted < 2
    ON CONFLICT DO UPDATE SET items = items + 1, tokens = tokens + excluded.tokens;
END;

DELETE FROM figure WHERE board IN (SELECT board FROM item WHERE deleted = 2);
INSERT INTO figure(board, owner, zone, type, status, items, tokens)
SELECT board, owner, zone, type, status, count(*), sum(tokens) FROM item
WHERE deleted < 2 AND board IN (SELECT board FROM item WHERE deleted = 2)
GROUP BY board, owner, zone, type, status;
UPDATE board SET archived_items = archived_items
    - (SELECT count(*) FROM item i WHERE i.board = board.no AND i.zone = 'archive' AND i.deleted = 2)
WHERE no IN (SELECT board FROM item WHERE deleted = 2);
