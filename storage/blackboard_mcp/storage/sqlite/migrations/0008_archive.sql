-- What the archive holds, without its texts: for the comparison of store and search index.
CREATE INDEX item_archived ON item(board, number, seq) WHERE zone = 'archive';

-- A thread in its order: for what stands around an item.
DROP INDEX item_thread;
CREATE INDEX item_thread ON item(board, thread, number);
