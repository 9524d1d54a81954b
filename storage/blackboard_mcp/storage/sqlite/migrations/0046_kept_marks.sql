-- The marks of items that read rules keep, on any board; searches by key look for each of them
CREATE TABLE kept_mark (
    mark TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

INSERT INTO kept_mark(mark) SELECT DISTINCT owner FROM item WHERE owner GLOB 'read:*';

CREATE TRIGGER item_kept AFTER INSERT ON item WHEN new.owner GLOB 'read:*'
BEGIN
    INSERT OR IGNORE INTO kept_mark(mark) VALUES (new.owner);
END;
