-- Instants are microseconds since 1970 in UTC. JSON columns hold UTF-8 text.
CREATE TABLE board (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    parent TEXT,
    lifecycle TEXT NOT NULL,
    config TEXT NOT NULL,
    core TEXT NOT NULL,
    seq INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    working_items INTEGER NOT NULL,
    working_tokens INTEGER NOT NULL,
    archived_items INTEGER NOT NULL
) STRICT;

-- The item as it stands; `owner` is '' for what everybody sees, else the only agent that does.
CREATE TABLE item (
    board INTEGER NOT NULL REFERENCES board(no),
    number INTEGER NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    zone TEXT NOT NULL,
    importance INTEGER NOT NULL,
    author TEXT NOT NULL,
    owner TEXT NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    thread INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ttl INTEGER,
    expires_at INTEGER,
    seq INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (board, number)
) STRICT;
CREATE UNIQUE INDEX item_key ON item(board, owner, key) WHERE key IS NOT NULL;
CREATE INDEX item_working ON item(board, importance, seq) WHERE zone = 'working';
CREATE INDEX item_thread ON item(board, thread);
CREATE INDEX item_expiry ON item(expires_at) WHERE expires_at IS NOT NULL AND zone = 'working';
CREATE INDEX item_law ON item(board, type) WHERE type IN ('CONSTRAINT', 'HOT_ISSUE') AND zone = 'working';

-- Former versions of entries, and who wrote them.
CREATE TABLE item_version (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (board, number, version),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT;

CREATE TABLE edge (
    board INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target INTEGER NOT NULL,
    PRIMARY KEY (board, source, kind, target),
    FOREIGN KEY (board, source) REFERENCES item(board, number) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (board, target) REFERENCES item(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_target ON edge(board, target, kind, source);

CREATE TABLE event (
    board INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event TEXT NOT NULL,
    item INTEGER,
    type TEXT,
    key TEXT,
    version INTEGER,
    thread INTEGER,
    agent TEXT NOT NULL,
    tags TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    owner TEXT NOT NULL,
    concerns TEXT NOT NULL,
    PRIMARY KEY (board, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_item ON event(board, item, seq) WHERE item IS NOT NULL;

-- Which events concern which agent, for the footer of every answer.
CREATE TABLE concern (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    seq INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (board, agent, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE debate (
    board INTEGER NOT NULL,
    id INTEGER NOT NULL,
    root INTEGER NOT NULL,
    state TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    explicit INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_by TEXT,
    closed_at INTEGER,
    reason TEXT NOT NULL,
    PRIMARY KEY (board, id),
    FOREIGN KEY (board, root) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX debate_open ON debate(board, id) WHERE state = 'OPEN';
CREATE INDEX debate_root ON debate(board, root, id);

-- The critiques a debate is about.
CREATE TABLE debate_critique (
    board INTEGER NOT NULL,
    critique INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    PRIMARY KEY (board, debate, critique)
) STRICT, WITHOUT ROWID;
CREATE INDEX debate_critique_item ON debate_critique(board, critique);

-- `debate` is 0 for an item that is watched without one.
CREATE TABLE obligation (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    item INTEGER NOT NULL,
    duty TEXT NOT NULL,
    debate INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (board, agent, item, duty, debate),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX obligation_outstanding ON obligation(board, agent, item) WHERE state = 'outstanding';
CREATE INDEX obligation_debate ON obligation(board, debate);

CREATE TABLE agent (
    board INTEGER NOT NULL,
    name TEXT NOT NULL,
    posts INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE subscription (
    board INTEGER NOT NULL,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    filter TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (board, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscription_agent ON subscription(board, agent);

-- A mutation applied once: `digest` is of its content, `answer` what it answered.
CREATE TABLE idempotency (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, agent, key)
) STRICT, WITHOUT ROWID;

-- Items whose place in the archive changed and which the search index has yet to learn of.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    board INTEGER NOT NULL,
    number INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_item ON outbox(board, number);

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
