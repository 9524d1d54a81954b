-- A delete of an entry takes a version: the item stands as a tombstone in the archive, out of the search index.
ALTER TABLE item ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item_version ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
DROP INDEX item_archived;
CREATE INDEX item_archived ON item(board, number, seq) WHERE zone = 'archive' AND deleted = 0;

-- Who wrote each version and when, whoever changed what may change of it since; and the status it had when the
-- next one came, empty where that is not known.
ALTER TABLE item ADD COLUMN written_by TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN written_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item_version ADD COLUMN written_by TEXT NOT NULL DEFAULT '';
ALTER TABLE item_version ADD COLUMN written_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item_version ADD COLUMN status TEXT NOT NULL DEFAULT '';
UPDATE item SET written_by = author, written_at = created_at;
UPDATE item SET written_by = e.agent, written_at = e.at FROM event e
WHERE item.version > 1 AND e.board = item.board AND e.item = item.number AND e.event = 'item.versioned'
  AND e.version = item.version;
UPDATE item_version SET written_by = i.author, written_at = i.created_at FROM item i
WHERE item_version.version = 1 AND i.board = item_version.board AND i.number = item_version.number;
UPDATE item_version SET written_by = e.agent, written_at = e.at FROM event e
WHERE item_version.version > 1 AND e.board = item_version.board AND e.item = item_version.number
  AND e.event = 'item.versioned' AND e.version = item_version.version;
