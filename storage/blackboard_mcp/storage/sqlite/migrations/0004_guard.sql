-- What open debates hold, each item once: by the debate and the edge over which it was first reached
-- (`kind` is '' for what a debate is about), `depth` edges from there.
CREATE TABLE held (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    PRIMARY KEY (board, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_debate ON held(board, debate);

CREATE INDEX obligation_item ON obligation(board, item, state);

-- All that may not leave working memory, whatever the reason: the one place that says so. An item may
-- stand here several times.
CREATE VIEW protected(board, number) AS
SELECT board, number FROM held
UNION ALL
SELECT board, item FROM obligation WHERE state = 'outstanding'
UNION ALL
SELECT board, number FROM item
WHERE zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED');

-- What the steps of a pass look for, so that each finds its candidates by an index: its author
-- supersedes it, an `analyzed_by` edge touches it, a debate on it was closed. What only some can see
-- does not count against what others see.
ALTER TABLE item ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item ADD COLUMN analysed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item ADD COLUMN debated INTEGER NOT NULL DEFAULT 0;
UPDATE item SET superseded = 1 WHERE EXISTS (
    SELECT 1 FROM edge e JOIN item s ON s.board = e.board AND s.number = e.source
    WHERE e.board = item.board AND e.target = item.number AND e.kind = 'supersedes'
      AND s.author = item.author AND s.owner IN ('', item.owner));
UPDATE item SET analysed = 1 WHERE EXISTS (
    SELECT 1 FROM edge e JOIN item o ON o.board = e.board AND o.number = e.source
    WHERE e.board = item.board AND e.target = item.number AND e.kind = 'analyzed_by'
      AND o.owner IN ('', item.owner))
  OR EXISTS (
    SELECT 1 FROM edge e JOIN item o ON o.board = e.board AND o.number = e.target
    WHERE e.board = item.board AND e.source = item.number AND e.kind = 'analyzed_by'
      AND o.owner IN ('', item.owner));
UPDATE item SET debated = 1 WHERE (board, number) IN (SELECT board, root FROM debate WHERE state <> 'OPEN');

CREATE INDEX item_done ON item(board, seq)
WHERE zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'));
CREATE INDEX item_analysed ON item(board, seq) WHERE zone = 'working' AND type = 'LOG' AND analysed = 1;
CREATE INDEX item_due ON item(board, expires_at) WHERE expires_at IS NOT NULL AND zone = 'working';
-- What settles the thread it stands in; an item that is its whole thread settles nothing.
CREATE INDEX item_settles ON item(board, thread)
WHERE zone = 'working' AND owner = ''
  AND (debated = 1 OR status = 'RESOLVED' OR (type IN ('DECISION', 'ANSWER') AND number <> thread));
CREATE INDEX item_thread_live ON item(board, thread, number) WHERE zone = 'working';

-- With the owner and the number in it, the most important items that an agent may see are found without
-- a look at those it may not.
DROP INDEX item_working;
CREATE INDEX item_working ON item(board, importance, seq, owner, number) WHERE zone = 'working';
CREATE INDEX item_private ON item(board, owner) WHERE zone = 'working' AND owner <> '';

-- The part of the figures that not everybody may know.
ALTER TABLE board ADD COLUMN private_items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE board ADD COLUMN private_tokens INTEGER NOT NULL DEFAULT 0;
UPDATE board SET
    private_items = (SELECT count(*) FROM item WHERE board = board.no AND zone = 'working' AND owner <> ''),
    private_tokens = (SELECT coalesce(sum(tokens), 0) FROM item
                      WHERE board = board.no AND zone = 'working' AND owner <> '');
