-- Who takes part on a board, and what they said about themselves; `left_at` is 0 while they do.
CREATE TABLE participant (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    interests TEXT NOT NULL,
    joined_at INTEGER NOT NULL,
    left_at INTEGER NOT NULL,
    PRIMARY KEY (board, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX participant_here ON participant(board, agent) WHERE left_at = 0;

-- Tasks of the agenda. `lease` is the last one given, `until` its end while it is held (RUNNING, WAITING), `length`
-- how long a call of its holder renews it, in microseconds; `stage` and `result` are numbers (0: none). `triggered` is 1 once the condition in `trigger_if` has held.
CREATE TABLE task (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    skill TEXT NOT NULL,
    worker TEXT NOT NULL,
    trigger_if TEXT NOT NULL,
    triggered INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    required INTEGER NOT NULL,
    verify TEXT NOT NULL,
    retries INTEGER NOT NULL,
    paths TEXT NOT NULL,
    state TEXT NOT NULL,
    blockers INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    holder TEXT NOT NULL,
    lease INTEGER NOT NULL,
    length INTEGER NOT NULL,
    until INTEGER NOT NULL,
    waits_on TEXT NOT NULL,
    waits_for TEXT NOT NULL,
    result INTEGER NOT NULL,
    why TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    moved_at INTEGER NOT NULL,
    dead_end TEXT NOT NULL,
    PRIMARY KEY (board, number)
) STRICT, WITHOUT ROWID;
-- `dead_end` is the fingerprint of its title while it is FAULTED or CANCELLED, and empty otherwise.
CREATE INDEX task_dead_end ON task(board, dead_end, number) WHERE dead_end <> '';
-- `blockers` counts the tasks in task_after that are not COMPLETED.
CREATE INDEX task_next ON task(board, worker, skill, priority DESC, number)
    WHERE state = 'PENDING' AND blockers = 0;
CREATE INDEX task_open ON task(board, state, priority DESC, number) WHERE state NOT IN ('COMPLETED', 'CANCELLED');
CREATE INDEX task_over ON task(board, state) WHERE state IN ('COMPLETED', 'CANCELLED');
CREATE INDEX task_held ON task(board, holder, number) WHERE state IN ('RUNNING', 'WAITING');
CREATE INDEX task_lapses ON task(until) WHERE state IN ('RUNNING', 'WAITING');
CREATE INDEX task_waiting ON task(board, number) WHERE state = 'WAITING';
CREATE INDEX task_stage ON task(board, stage, number) WHERE stage > 0;
CREATE INDEX task_result ON task(board, result) WHERE result > 0;
CREATE INDEX task_review ON task(board, result) WHERE state = 'REVIEW' AND result > 0;
CREATE UNIQUE INDEX task_trigger ON task(board, trigger_if) WHERE state IN ('RUNNING', 'WAITING') AND trigger_if <> '';
CREATE UNIQUE INDEX task_worker ON task(board, worker) WHERE state IN ('RUNNING', 'WAITING') AND worker <> '';

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
SELECT board, result FROM task WHERE state = 'REVIEW' AND result > 0
UNION ALL
SELECT board, number FROM item
WHERE zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED');

-- `task` comes after `after_task`.
CREATE TABLE task_after (
    board INTEGER NOT NULL,
    task INTEGER NOT NULL,
    after_task INTEGER NOT NULL,
    PRIMARY KEY (board, task, after_task),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (board, after_task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE INDEX task_before ON task_after(board, after_task, task);

-- Ended attempts at a task, and what they left for the next.
CREATE TABLE task_attempt (
    board INTEGER NOT NULL,
    task INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    agent TEXT NOT NULL,
    how TEXT NOT NULL,
    note TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, task, lease, at),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

-- Files and keys that a lease reserves. `task` is 0 for a reservation alone.
CREATE TABLE reservation (
    board INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    pattern TEXT NOT NULL,
    shared INTEGER NOT NULL,
    agent TEXT NOT NULL,
    task INTEGER NOT NULL,
    length INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (board, lease, pattern)
) STRICT, WITHOUT ROWID;
CREATE INDEX reservation_lapses ON reservation(until);

-- Stages and milestones. `required` is a condition until the stage becomes available, then `needed` says what it gave
-- (2: not evaluated yet). `entry_held` is what the entry condition last gave, since a stage is entered as it becomes
-- true.
CREATE TABLE stage (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    title TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    entry_if TEXT NOT NULL,
    exit_if TEXT NOT NULL,
    required_if TEXT NOT NULL,
    needed INTEGER NOT NULL,
    entry_held INTEGER NOT NULL,
    manual INTEGER NOT NULL,
    autocomplete INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    moved_at INTEGER NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (board, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX stage_title ON stage(board, title) WHERE state NOT IN ('COMPLETED', 'TERMINATED');
CREATE INDEX stage_under ON stage(board, parent, number);

-- What the conditions of stages and tasks mention, so that a change finds those that it may touch: `task:3`,
-- `stage:2`, `items`, `key:plan`, `flag:go`, `milestone:beta`, `debates`. `kind` is `stage` or `task`.
CREATE TABLE condition_term (
    board INTEGER NOT NULL,
    term TEXT NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, term, kind, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX condition_of ON condition_term(board, kind, number);
-- Conditions to look at again in the next change, since a transaction lets only so many follow from each other.
CREATE TABLE condition_due (
    board INTEGER NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, kind, number)
) STRICT, WITHOUT ROWID;

-- Runs. `problem` and `answer` are items (0: none), `stamp` is the sequence of the run's last change, `idle` is in
-- microseconds.
CREATE TABLE run (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    problem INTEGER NOT NULL,
    state TEXT NOT NULL,
    phase TEXT NOT NULL,
    strategy TEXT NOT NULL,
    fallback TEXT NOT NULL,
    agents TEXT NOT NULL,
    round INTEGER NOT NULL,
    max_rounds INTEGER NOT NULL,
    budget TEXT NOT NULL,
    spent TEXT NOT NULL,
    coordinator TEXT NOT NULL,
    decider TEXT NOT NULL,
    sealed INTEGER NOT NULL,
    coordinate TEXT NOT NULL,
    decide TEXT NOT NULL,
    idle INTEGER NOT NULL,
    started_by TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    moved_at INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    malformed INTEGER NOT NULL,
    stalls INTEGER NOT NULL,
    resets INTEGER NOT NULL,
    reason TEXT NOT NULL,
    answer INTEGER NOT NULL,
    strategy_state TEXT NOT NULL,
    PRIMARY KEY (board, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX run_live ON run(board) WHERE state IN ('open', 'settled');

-- Turns. `text` is a contribution to a sealed round until it opens; `until` ends the lease of a turn that is `given`.
CREATE TABLE run_turn (
    board INTEGER NOT NULL,
    run INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    round INTEGER NOT NULL,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    until INTEGER NOT NULL,
    instruction TEXT NOT NULL,
    state TEXT NOT NULL,
    text TEXT NOT NULL,
    item INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, run, lease),
    FOREIGN KEY (board, run) REFERENCES run(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE INDEX run_turn_lapses ON run_turn(until) WHERE state = 'given';
CREATE INDEX run_turn_round ON run_turn(board, run, round);
CREATE INDEX run_turn_of ON run_turn(board, agent, run) WHERE state = 'given';

-- What agents offered for the next round of a run, in thousandths.
CREATE TABLE run_offer (
    board INTEGER NOT NULL,
    run INTEGER NOT NULL,
    agent TEXT NOT NULL,
    offer INTEGER NOT NULL,
    PRIMARY KEY (board, run, agent),
    FOREIGN KEY (board, run) REFERENCES run(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
