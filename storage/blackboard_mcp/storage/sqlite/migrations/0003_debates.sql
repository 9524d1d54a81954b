-- Whom an agent acts for, on every board; an agent without a row acts for itself.
CREATE TABLE principal (
    agent TEXT PRIMARY KEY,
    owner TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- An owner's vote in a debate, given by one of its agents on one version of what is debated.
CREATE TABLE vote (
    board INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    version INTEGER NOT NULL,
    approve INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, debate, owner)
) STRICT, WITHOUT ROWID;

-- Standing watches: `topic` is a kind, a colon, and a glob of keys, a tag, a type or a thread's number.
CREATE TABLE watch (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    topic TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (board, agent, topic)
) STRICT, WITHOUT ROWID;
CREATE INDEX watch_topic ON watch(board, topic, since);
CREATE INDEX watch_since ON watch(since);

-- How the item fared, 'accepted' or 'rejected', where a debate ended in consensus; and when it last moved.
ALTER TABLE debate ADD COLUMN outcome TEXT NOT NULL DEFAULT '';
ALTER TABLE debate ADD COLUMN moved_at INTEGER NOT NULL DEFAULT 0;
UPDATE debate SET moved_at = opened_at;
CREATE INDEX debate_moved ON debate(moved_at) WHERE state = 'OPEN';

CREATE INDEX obligation_waiting ON obligation(since) WHERE state = 'outstanding' AND duty = 'acknowledge';
