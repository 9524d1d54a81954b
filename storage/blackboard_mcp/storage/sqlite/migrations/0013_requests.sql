-- Requests from agent to agent: `number` is the QUESTION, either `agent` or `skill` says whom it is for. `lease` is
-- the sequence of the last taking, `partial` the entry with what there is of an answer (0: none). While `live`, it
-- is due at `due_at`: the end of the holder's lease or the deadline, whichever comes first.
CREATE TABLE request (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    asker TEXT NOT NULL,
    agent TEXT NOT NULL,
    skill TEXT NOT NULL,
    state TEXT NOT NULL,
    live INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    partial INTEGER NOT NULL,
    answer INTEGER NOT NULL,
    reason TEXT NOT NULL,
    ended_by TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_for ON request(board, agent, number) WHERE live = 1;
CREATE INDEX request_skill ON request(board, skill, number) WHERE live = 1;
CREATE INDEX request_held ON request(board, holder, number) WHERE live = 1;
CREATE INDEX request_asked ON request(board, asker, number) WHERE live = 1;
CREATE INDEX request_partial ON request(board, partial) WHERE live = 1 AND partial > 0;
CREATE INDEX request_due ON request(due_at) WHERE live = 1;

-- Agents that declined a request.
CREATE TABLE request_declined (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    agent TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, number, agent),
    FOREIGN KEY (board, number) REFERENCES request(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

-- Skills that agents offer.
CREATE TABLE skill (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    skill TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (board, agent, skill)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_offered ON skill(board, skill, since);
CREATE INDEX skill_since ON skill(since);

-- All that may not leave working memory, whatever the reason: the one place that says so. An item may
-- stand here several times.
DROP VIEW protected;
CREATE VIEW protected(board, number) AS
SELECT board, number FROM held
UNION ALL
SELECT board, item FROM obligation WHERE state = 'outstanding'
UNION ALL
SELECT board, number FROM request WHERE live = 1
UNION ALL
SELECT board, partial FROM request WHERE live = 1 AND partial > 0
UNION ALL
SELECT board, number FROM item
WHERE zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED');
