-- The schema as schema 49 of the SQLite engine has it (sqlite/migrations), in PostgreSQL's words. Instants are
-- microseconds since 1970 in UTC; conditions are 0 and 1; JSON is text, since its bytes are what hashes are of.
-- Text compares by its bytes (collation "C") whatever the database's own order is.

CREATE TABLE board (
    no bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    title text COLLATE "C" NOT NULL,
    parent text COLLATE "C",
    lifecycle text COLLATE "C" NOT NULL,
    config text COLLATE "C" NOT NULL,
    core text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    last_number bigint NOT NULL,
    created_at bigint NOT NULL,
    working_items bigint NOT NULL,
    working_tokens bigint NOT NULL,
    archived_items bigint NOT NULL,
    private_items bigint NOT NULL DEFAULT 0,
    private_tokens bigint NOT NULL DEFAULT 0,
    pressure bigint NOT NULL DEFAULT 0,
    copied bigint NOT NULL DEFAULT 0);

CREATE TABLE item (
    board bigint NOT NULL REFERENCES board(no) DEFERRABLE,
    number bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    version bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    zone text COLLATE "C" NOT NULL,
    importance bigint NOT NULL,
    author text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    tokens bigint NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    thread bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    ttl bigint,
    expires_at bigint,
    seq bigint NOT NULL,
    updated_by text COLLATE "C" NOT NULL,
    superseded bigint NOT NULL DEFAULT 0,
    analysed bigint NOT NULL DEFAULT 0,
    debated bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    written_by text COLLATE "C" NOT NULL DEFAULT '',
    written_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, number)
);

CREATE TABLE item_version (
    board bigint NOT NULL,
    number bigint NOT NULL,
    version bigint NOT NULL,
    text text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    tokens bigint NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL,
    updated_by text COLLATE "C" NOT NULL,
    deleted bigint NOT NULL DEFAULT 0,
    written_by text COLLATE "C" NOT NULL DEFAULT '',
    written_at bigint NOT NULL DEFAULT 0,
    status text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (board, number, version),
    FOREIGN KEY (board, number) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE edge (
    board bigint NOT NULL,
    source bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    target bigint NOT NULL,
    PRIMARY KEY (board, source, kind, target),
    FOREIGN KEY (board, source) REFERENCES item(board, number) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (board, target) REFERENCES item(board, number) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE event (
    board bigint NOT NULL,
    seq bigint NOT NULL,
    event text COLLATE "C" NOT NULL,
    item bigint,
    type text COLLATE "C",
    key text COLLATE "C",
    version bigint,
    thread bigint,
    agent text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    concerns text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, seq)
);

CREATE TABLE concern (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    item bigint NOT NULL,
    PRIMARY KEY (board, agent, seq)
);

CREATE TABLE debate (
    board bigint NOT NULL,
    id bigint NOT NULL,
    root bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    opened_by text COLLATE "C" NOT NULL,
    explicit bigint NOT NULL,
    opened_at bigint NOT NULL,
    closed_by text COLLATE "C",
    closed_at bigint,
    reason text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL DEFAULT '',
    moved_at bigint NOT NULL DEFAULT 0,
    gave_way_to bigint NOT NULL DEFAULT 0,
    confirmed_by text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (board, id),
    FOREIGN KEY (board, root) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE debate_critique (
    board bigint NOT NULL,
    critique bigint NOT NULL,
    debate bigint NOT NULL,
    answer bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, debate, critique)
);

CREATE TABLE obligation (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    item bigint NOT NULL,
    duty text COLLATE "C" NOT NULL,
    debate bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (board, agent, item, duty, debate),
    FOREIGN KEY (board, item) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE agent (
    board bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    posts bigint NOT NULL,
    first_seen bigint NOT NULL,
    last_seen bigint NOT NULL,
    PRIMARY KEY (board, name)
);

CREATE TABLE subscription (
    board bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    filter text COLLATE "C" NOT NULL,
    cursor bigint NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, id)
);

CREATE TABLE idempotency (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    answer text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    expires_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, agent, key)
);

-- The indexes of archives: each machine has one in its data folder, and learns of each change by a row of its own.
CREATE TABLE index_reader (
    id text COLLATE "C" PRIMARY KEY,
    seen_at bigint NOT NULL
);

CREATE TABLE outbox_row (
    reader text COLLATE "C" NOT NULL,
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    board bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (reader, id)
);

-- What the index of this connection's machine has yet to learn.
CREATE VIEW outbox AS SELECT id, board, number FROM outbox_row WHERE reader = current_setting('blackboard.reader');

CREATE TABLE lease (
    name text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    until bigint NOT NULL
);

CREATE TABLE item_use (
    board bigint NOT NULL,
    number bigint NOT NULL,
    reads bigint NOT NULL,
    last_read bigint NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE principal (
    agent text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL
);

CREATE TABLE vote (
    board bigint NOT NULL,
    debate bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    approve bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, debate, owner)
);

CREATE TABLE watch (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (board, agent, topic)
);

CREATE TABLE held (
    board bigint NOT NULL,
    number bigint NOT NULL,
    debate bigint NOT NULL,
    source bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    target bigint NOT NULL,
    depth bigint NOT NULL,
    PRIMARY KEY (board, number)
);

CREATE TABLE finding (
    board bigint NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, fingerprint, number)
);

CREATE TABLE endorsement (
    board bigint NOT NULL,
    item bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, item, agent),
    FOREIGN KEY (board, item) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE retraction (
    board bigint NOT NULL,
    item bigint NOT NULL,
    source bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    via bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    successor bigint,
    seq bigint NOT NULL,
    PRIMARY KEY (board, item, source),
    FOREIGN KEY (board, item) REFERENCES item(board, number) DEFERRABLE,
    FOREIGN KEY (board, source) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE spreading (
    board bigint NOT NULL,
    source bigint NOT NULL,
    item bigint NOT NULL,
    after bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    successor bigint,
    agent text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, source, item)
);

CREATE TABLE summary_request (
    board bigint NOT NULL,
    thread bigint NOT NULL,
    item bigint NOT NULL,
    seen text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    opened_at bigint NOT NULL,
    due_at bigint NOT NULL,
    holder text COLLATE "C",
    held_until bigint,
    lease bigint NOT NULL,
    PRIMARY KEY (board, thread),
    FOREIGN KEY (board, item) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE figure (
    board bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    zone text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    items bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (board, owner, zone, type, status)
);

CREATE TABLE subscription_expired (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    filter text COLLATE "C" NOT NULL,
    cursor bigint NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL,
    expired_at bigint NOT NULL,
    PRIMARY KEY (board, agent, id)
);

CREATE TABLE request (
    board bigint NOT NULL,
    number bigint NOT NULL,
    asker text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    skill text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    live bigint NOT NULL,
    opened_at bigint NOT NULL,
    deadline bigint NOT NULL,
    due_at bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    held_until bigint NOT NULL,
    lease bigint NOT NULL,
    parts bigint NOT NULL,
    partial bigint NOT NULL,
    answer bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    ended_by text COLLATE "C" NOT NULL,
    ended_at bigint NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE request_declined (
    board bigint NOT NULL,
    number bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, number, agent),
    FOREIGN KEY (board, number) REFERENCES request(board, number) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE skill (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    skill text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (board, agent, skill)
);

CREATE TABLE consumer_group (
    board bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    filter text COLLATE "C" NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    max_attempts bigint NOT NULL,
    cursor bigint NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (board, name)
);

CREATE TABLE delivery (
    board bigint NOT NULL,
    consumers text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    attempt bigint NOT NULL,
    tries bigint NOT NULL,
    last bigint NOT NULL,
    worker text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    dead bigint NOT NULL,
    why text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, consumers, seq),
    FOREIGN KEY (board, consumers) REFERENCES consumer_group(board, name) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE key_part (
    board bigint NOT NULL,
    part text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, part, number)
);

CREATE TABLE share (
    board bigint NOT NULL,
    author text COLLATE "C" NOT NULL,
    items bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (board, author)
);

CREATE TABLE token (
    id text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL,
    agent text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    roles text COLLATE "C" NOT NULL,
    scopes text COLLATE "C" NOT NULL,
    trust text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    used_at bigint
);

CREATE TABLE member (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, agent)
);

CREATE TABLE agent_trust (
    agent text COLLATE "C" PRIMARY KEY,
    trust text COLLATE "C" NOT NULL
);

CREATE TABLE item_trust (
    board bigint NOT NULL,
    number bigint NOT NULL,
    trust text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE agreed_claim (
    board bigint NOT NULL,
    source bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    target bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, target, kind, source),
    FOREIGN KEY (board, source) REFERENCES item(board, number) DEFERRABLE,
    FOREIGN KEY (board, target) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE undecided (
    board bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE agreement (
    board bigint NOT NULL,
    item bigint NOT NULL,
    asked_by text COLLATE "C" NOT NULL,
    enough bigint NOT NULL,
    reached bigint NOT NULL,
    asked_at bigint NOT NULL,
    PRIMARY KEY (board, item),
    FOREIGN KEY (board, item) REFERENCES item(board, number) DEFERRABLE
);

CREATE TABLE shown (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    cursor bigint NOT NULL,
    above text COLLATE "C" NOT NULL,
    told text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, agent)
);

CREATE TABLE decision (
    board bigint NOT NULL,
    debate bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    gave_way_to bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, debate, owner)
);

CREATE TABLE look (
    board bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    look text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, name, look)
);

CREATE TABLE stored (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (board, agent)
);

CREATE TABLE participant (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    interests text COLLATE "C" NOT NULL,
    joined_at bigint NOT NULL,
    left_at bigint NOT NULL,
    protocols text COLLATE "C" NOT NULL DEFAULT '[]',
    PRIMARY KEY (board, agent)
);

CREATE TABLE task (
    board bigint NOT NULL,
    number bigint NOT NULL,
    title text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,
    skill text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    trigger_if text COLLATE "C" NOT NULL,
    triggered bigint NOT NULL,
    priority bigint NOT NULL,
    stage bigint NOT NULL,
    required bigint NOT NULL,
    verify text COLLATE "C" NOT NULL,
    retries bigint NOT NULL,
    paths text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    blockers bigint NOT NULL,
    attempts bigint NOT NULL,
    failures bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    lease bigint NOT NULL,
    length bigint NOT NULL,
    until bigint NOT NULL,
    waits_on text COLLATE "C" NOT NULL,
    waits_for text COLLATE "C" NOT NULL,
    result bigint NOT NULL,
    why text COLLATE "C" NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    moved_at bigint NOT NULL,
    dead_end text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, number)
);

CREATE TABLE task_after (
    board bigint NOT NULL,
    task bigint NOT NULL,
    after_task bigint NOT NULL,
    PRIMARY KEY (board, task, after_task),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (board, after_task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE task_attempt (
    board bigint NOT NULL,
    task bigint NOT NULL,
    lease bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    how text COLLATE "C" NOT NULL,
    note text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, task, lease, at),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE reservation (
    board bigint NOT NULL,
    lease bigint NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    shared bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    task bigint NOT NULL,
    length bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (board, lease, pattern)
);

CREATE TABLE stage (
    board bigint NOT NULL,
    number bigint NOT NULL,
    parent bigint NOT NULL,
    title text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    entry_if text COLLATE "C" NOT NULL,
    exit_if text COLLATE "C" NOT NULL,
    required_if text COLLATE "C" NOT NULL,
    needed bigint NOT NULL,
    entry_held bigint NOT NULL,
    manual bigint NOT NULL,
    autocomplete bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    moved_at bigint NOT NULL,
    why text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, number)
);

CREATE TABLE condition_term (
    board bigint NOT NULL,
    term text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, term, kind, number)
);

CREATE TABLE condition_due (
    board bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, kind, number)
);

CREATE TABLE run (
    board bigint NOT NULL,
    number bigint NOT NULL,
    problem bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL,
    strategy text COLLATE "C" NOT NULL,
    fallback text COLLATE "C" NOT NULL,
    agents text COLLATE "C" NOT NULL,
    round bigint NOT NULL,
    max_rounds bigint NOT NULL,
    budget text COLLATE "C" NOT NULL,
    spent text COLLATE "C" NOT NULL,
    coordinator text COLLATE "C" NOT NULL,
    decider text COLLATE "C" NOT NULL,
    sealed bigint NOT NULL,
    coordinate text COLLATE "C" NOT NULL,
    decide text COLLATE "C" NOT NULL,
    idle bigint NOT NULL,
    started_by text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    moved_at bigint NOT NULL,
    stamp bigint NOT NULL,
    malformed bigint NOT NULL,
    stalls bigint NOT NULL,
    resets bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    answer bigint NOT NULL,
    strategy_state text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, number)
);

CREATE TABLE run_turn (
    board bigint NOT NULL,
    run bigint NOT NULL,
    lease bigint NOT NULL,
    round bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    instruction text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,
    item bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (board, run, lease),
    FOREIGN KEY (board, run) REFERENCES run(board, number) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE run_offer (
    board bigint NOT NULL,
    run bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    offer bigint NOT NULL,
    PRIMARY KEY (board, run, agent),
    FOREIGN KEY (board, run) REFERENCES run(board, number) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE rule_change (
    board bigint NOT NULL,
    item bigint NOT NULL,
    mark text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (board, item)
);

CREATE TABLE rules_seen (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (board, agent)
);

CREATE TABLE sighting (
    board bigint NOT NULL,
    item bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    first_at bigint NOT NULL,
    first_way text COLLATE "C" NOT NULL,
    last_at bigint NOT NULL,
    last_way text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, item, agent)
);

CREATE TABLE artifact_revision (
    board bigint NOT NULL,
    revision bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    op text COLLATE "C" NOT NULL,
    before bigint NOT NULL,
    size bigint NOT NULL,
    lines bigint,
    blob text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, revision)
);

CREATE TABLE artifact (
    board bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    gone bigint NOT NULL,
    PRIMARY KEY (board, path)
);

CREATE TABLE read_rules (
    rules text COLLATE "C" NOT NULL
);

CREATE TABLE rule_reader (
    mark text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    PRIMARY KEY (mark, principal)
);

CREATE TABLE shown_role (
    board bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    PRIMARY KEY (board, agent)
);

CREATE TABLE kept_mark (
    mark text COLLATE "C" PRIMARY KEY
);

CREATE UNIQUE INDEX item_key ON item(board, owner, key) WHERE key IS NOT NULL;

CREATE INDEX item_law ON item(board, type) WHERE type IN ('CONSTRAINT', 'HOT_ISSUE') AND zone = 'working';

CREATE INDEX edge_target ON edge(board, target, kind, source);

CREATE INDEX event_item ON event(board, item, seq) WHERE item IS NOT NULL;

CREATE INDEX debate_open ON debate(board, id) WHERE state = 'OPEN';

CREATE INDEX debate_root ON debate(board, root, id);

CREATE INDEX debate_critique_item ON debate_critique(board, critique);

CREATE INDEX obligation_outstanding ON obligation(board, agent, item) WHERE state = 'outstanding';

CREATE INDEX obligation_debate ON obligation(board, debate);

CREATE INDEX subscription_agent ON subscription(board, agent);

CREATE INDEX outbox_item ON outbox_row(reader, board, number);

CREATE INDEX watch_topic ON watch(board, topic, since);

CREATE INDEX watch_since ON watch(since);

CREATE INDEX debate_moved ON debate(moved_at) WHERE state = 'OPEN';

CREATE INDEX obligation_waiting ON obligation(since) WHERE state = 'outstanding' AND duty = 'acknowledge';

CREATE INDEX held_debate ON held(board, debate);

CREATE INDEX obligation_item ON obligation(board, item, state);

CREATE INDEX item_done ON item(board, seq)
WHERE zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'));

CREATE INDEX item_analysed ON item(board, seq) WHERE zone = 'working' AND type = 'LOG' AND analysed = 1;

CREATE INDEX item_due ON item(board, expires_at) WHERE expires_at IS NOT NULL AND zone = 'working';

CREATE INDEX item_settles ON item(board, thread)
WHERE zone = 'working' AND owner = ''
  AND (debated = 1 OR status = 'RESOLVED' OR (type IN ('DECISION', 'ANSWER') AND number <> thread));

CREATE INDEX item_thread_live ON item(board, thread, number) WHERE zone = 'working';

CREATE INDEX item_working ON item(board, importance, seq, owner, number) WHERE zone = 'working';

CREATE INDEX item_private ON item(board, owner) WHERE zone = 'working' AND owner <> '';

CREATE INDEX item_thread ON item(board, thread, number);

CREATE INDEX subscription_used ON subscription(board, used_at);

CREATE INDEX subscription_expired_at ON subscription_expired(board, expired_at);

CREATE INDEX idempotency_expiry ON idempotency(expires_at);

CREATE INDEX item_archived ON item(board, number, seq) WHERE zone = 'archive' AND deleted = 0;

CREATE INDEX request_for ON request(board, agent, number) WHERE live = 1;

CREATE INDEX request_skill ON request(board, skill, number) WHERE live = 1;

CREATE INDEX request_held ON request(board, holder, number) WHERE live = 1;

CREATE INDEX request_asked ON request(board, asker, number) WHERE live = 1;

CREATE INDEX request_partial ON request(board, partial) WHERE live = 1 AND partial > 0;

CREATE INDEX request_due ON request(due_at) WHERE live = 1;

CREATE INDEX skill_offered ON skill(board, skill, since);

CREATE INDEX skill_since ON skill(since);

CREATE INDEX consumer_group_used ON consumer_group(board, used_at);

CREATE INDEX delivery_out ON delivery(board, consumers, until) WHERE dead = 0;

CREATE INDEX delivery_dead ON delivery(board, consumers, seq) WHERE dead = 1;

CREATE INDEX delivery_last ON delivery(until) WHERE dead = 0 AND last = 1;

CREATE INDEX item_keyed ON item(board, number) WHERE key IS NOT NULL;

CREATE INDEX item_live_key ON item(board, key, number) WHERE key IS NOT NULL AND zone = 'working';

CREATE INDEX item_expiry ON item(expires_at, board, number) WHERE expires_at IS NOT NULL AND zone = 'working';

CREATE INDEX token_agent ON token(agent);

CREATE INDEX item_type ON item(board, type, importance, seq, owner, status, number) WHERE zone = 'working';

CREATE INDEX debate_ended ON debate(board, closed_at, id) WHERE state <> 'OPEN';

CREATE INDEX item_said ON item(board, sha256, author)
WHERE key IS NULL AND type NOT IN ('LOG', 'RESULT', 'SUMMARY');

CREATE INDEX obligation_asked ON obligation(since) WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;

CREATE INDEX obligation_agreeing ON obligation(since) WHERE state = 'outstanding' AND duty = 'agree';

CREATE INDEX obligation_question ON obligation(board, item)
WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;

CREATE INDEX obligation_awaited ON obligation(board, since) WHERE state = 'outstanding' AND debate > 0;

CREATE INDEX agent_there ON agent(last_seen);

CREATE INDEX item_turn ON item(board, author, importance, seq, number) WHERE zone = 'working';

CREATE INDEX look_of ON look(board, look);

CREATE INDEX principal_owner ON principal(owner);

CREATE INDEX item_tombstone ON item(board, number) WHERE zone = 'archive' AND deleted = 1;

CREATE INDEX participant_here ON participant(board, agent) WHERE left_at = 0;

CREATE INDEX task_dead_end ON task(board, dead_end, number) WHERE dead_end <> '';

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

CREATE INDEX task_before ON task_after(board, after_task, task);

CREATE INDEX reservation_lapses ON reservation(until);

CREATE UNIQUE INDEX stage_title ON stage(board, title) WHERE state NOT IN ('COMPLETED', 'TERMINATED');

CREATE INDEX stage_under ON stage(board, parent, number);

CREATE INDEX condition_of ON condition_term(board, kind, number);

CREATE UNIQUE INDEX run_live ON run(board) WHERE state IN ('open', 'settled');

CREATE INDEX run_turn_lapses ON run_turn(until) WHERE state = 'given';

CREATE INDEX run_turn_round ON run_turn(board, run, round);

CREATE INDEX run_turn_of ON run_turn(board, agent, run) WHERE state = 'given';

CREATE INDEX rule_revision ON rule_change(board, revision);

CREATE INDEX artifact_revision_path ON artifact_revision(board, path, revision);

CREATE INDEX artifact_folded ON artifact(board, folded) WHERE gone = 0;

CREATE INDEX task_failed ON task(board, number) WHERE dead_end <> '';

-- What a task that a board below does gives to it and brings back.
CREATE TABLE sub_board (
    board bigint NOT NULL,
    task bigint NOT NULL,
    spec text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (board, task),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX task_below ON task(board, number)
    WHERE substr(worker, 1, 6) = 'board:' AND state IN ('PENDING', 'RUNNING', 'WAITING');

CREATE VIEW exempt(board, number) AS
SELECT board, number FROM item
WHERE zone = 'working' AND importance = 5 AND status = 'ACTIVE' AND superseded = 0
  AND type NOT IN ('CONSTRAINT', 'HOT_ISSUE');

CREATE VIEW open_work(board, number) AS
SELECT i.board, i.number FROM item i
WHERE i.zone = 'working' AND i.status = 'ACTIVE' AND i.superseded = 0 AND (
    i.type IN ('PROBLEM', 'PLAN', 'DECISION')
    OR (i.type = 'QUESTION' AND NOT EXISTS (
        SELECT 1 FROM edge e JOIN item a ON a.board = e.board AND a.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = 'replies_to' AND a.owner IN ('', i.owner)
          AND (a.type = 'ANSWER' OR (a.type NOT IN ('QUESTION', 'CRITIQUE') AND a.author <> i.author))
          AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
    OR EXISTS (
        SELECT 1 FROM edge e JOIN item x ON x.board = e.board AND x.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = 'depends_on' AND x.owner IN ('', i.owner)
          AND x.zone = 'working' AND x.status = 'ACTIVE'));

CREATE VIEW bearing(board, number, source) AS
SELECT e.board, e.target, e.source FROM edge e
JOIN item x ON x.board = e.board AND x.number = e.source
JOIN item i ON i.board = e.board AND i.number = e.target
WHERE e.kind IN ('derived_from', 'depends_on') AND x.zone = 'working' AND x.status IN ('ACTIVE', 'DEBATED')
  AND x.importance >= 3 AND x.superseded = 0 AND x.type <> 'SUMMARY' AND x.owner IN ('', i.owner)
UNION ALL
SELECT e.board, e.source, e.target FROM edge e
JOIN item x ON x.board = e.board AND x.number = e.target
JOIN item i ON i.board = e.board AND i.number = e.source
WHERE e.kind = 'refutes' AND x.zone = 'working' AND x.status = 'INVALIDATED' AND x.owner IN ('', i.owner);

CREATE VIEW asked(board, number) AS
SELECT DISTINCT board, item FROM obligation
WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;

CREATE VIEW party(board, debate, agent) AS
SELECT board, debate, agent FROM obligation WHERE debate > 0
UNION ALL
SELECT board, debate, agent FROM decision
UNION ALL
SELECT d.board, d.id, i.author FROM debate d JOIN item i ON i.board = d.board AND i.number = d.root;

CREATE VIEW cited(board, number, at) AS
SELECT i.board, i.number,
       CASE WHEN EXISTS (SELECT 1 FROM edge e WHERE e.board = i.board AND e.target = i.number)
       THEN (
    SELECT max((
        SELECT s.created_at FROM edge e
        JOIN item s ON s.board = e.board AND s.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = k.value AND s.owner IN ('', i.owner)
        ORDER BY e.source DESC LIMIT 1))
    FROM json_each('["depends_on","derived_from","replies_to","supports","critiques","refutes"]') k) END
FROM item i;

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

CREATE VIEW acting_role(place, who, role) AS
SELECT m.board, m.agent, m.role FROM member m
UNION ALL
SELECT s.board, s.agent, s.role FROM shown_role s
WHERE NOT EXISTS (SELECT 1 FROM member m WHERE m.board = s.board AND m.agent = s.agent);

CREATE FUNCTION next_board() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT coalesce(max(no), 0) + 1 FROM board $$;
ALTER TABLE board ALTER COLUMN no SET DEFAULT next_board();

CREATE FUNCTION key_parts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_part(board, part, number)
    SELECT DISTINCT new.board, p.part, new.number FROM unnest(string_to_array(new.key, ':')) AS p(part)
    UNION ALL
    SELECT new.board, ':' || (length(new.key) - length(replace(new.key, ':', ''))), new.number;
    RETURN NULL;
END $$;
CREATE TRIGGER key_parts AFTER INSERT ON item FOR EACH ROW WHEN (new.key IS NOT NULL) EXECUTE FUNCTION key_parts();

CREATE FUNCTION share_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO share(board, author, items, tokens) VALUES (new.board, new.author, 1, new.tokens)
    ON CONFLICT (board, author) DO UPDATE SET items = share.items + 1, tokens = share.tokens + excluded.tokens;
    RETURN NULL;
END $$;
CREATE TRIGGER share_of_new AFTER INSERT ON item FOR EACH ROW WHEN (new.zone = 'working')
EXECUTE FUNCTION share_of_new();

CREATE FUNCTION share_of_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE share SET items = items - 1, tokens = tokens - old.tokens
    WHERE old.zone = 'working' AND board = old.board AND author = old.author;
    DELETE FROM share WHERE board = old.board AND author = old.author AND items = 0;
    INSERT INTO share(board, author, items, tokens)
    SELECT new.board, new.author, 1, new.tokens WHERE new.zone = 'working'
    ON CONFLICT (board, author) DO UPDATE SET items = share.items + 1, tokens = share.tokens + excluded.tokens;
    RETURN NULL;
END $$;
CREATE TRIGGER share_of_changed AFTER UPDATE OF zone, tokens ON item FOR EACH ROW
WHEN (old.zone <> new.zone OR old.tokens <> new.tokens) EXECUTE FUNCTION share_of_changed();

-- The bytes that somebody's texts take, and those of the board under the name ''.
CREATE FUNCTION store_bytes(board bigint, agent text, bytes bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO stored(board, agent, bytes) SELECT $1, who.name, $3 FROM unnest(ARRAY[$2, '']) AS who(name)
    ON CONFLICT (board, agent) DO UPDATE SET bytes = stored.bytes + excluded.bytes
$$;

CREATE FUNCTION stored_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM store_bytes(new.board, new.written_by,
                        octet_length(new.text) + octet_length(new.tags) + octet_length(new.metadata) + 1000);
    RETURN NULL;
END $$;
CREATE TRIGGER stored_of_new AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION stored_of_new();
CREATE TRIGGER stored_of_former AFTER INSERT ON item_version FOR EACH ROW EXECUTE FUNCTION stored_of_new();

CREATE FUNCTION stored_of_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored SET bytes = bytes - (octet_length(old.text) + octet_length(old.tags) + octet_length(old.metadata) + 1000)
    WHERE board = old.board AND agent IN (old.written_by, '');
    DELETE FROM stored WHERE board = old.board AND agent = old.written_by AND bytes = 0;
    PERFORM store_bytes(new.board, new.written_by,
                        octet_length(new.text) + octet_length(new.tags) + octet_length(new.metadata) + 1000);
    RETURN NULL;
END $$;
CREATE TRIGGER stored_of_changed AFTER UPDATE OF text, tags, metadata, written_by ON item FOR EACH ROW
WHEN (old.text <> new.text OR old.tags <> new.tags OR old.metadata <> new.metadata OR old.written_by <> new.written_by)
EXECUTE FUNCTION stored_of_changed();

CREATE FUNCTION stored_of_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored SET bytes = bytes
        - octet_length(old.text) - octet_length(old.tags) - octet_length(old.metadata)
        + octet_length(new.text) + octet_length(new.tags) + octet_length(new.metadata)
    WHERE board = new.board AND agent IN (new.written_by, '');
    RETURN NULL;
END $$;
CREATE TRIGGER stored_of_forgotten AFTER UPDATE OF text, tags, metadata ON item_version FOR EACH ROW
WHEN (old.text <> new.text OR old.tags <> new.tags OR old.metadata <> new.metadata)
EXECUTE FUNCTION stored_of_forgotten();

CREATE FUNCTION figure_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    VALUES (new.board, new.owner, new.zone, new.type, new.status, 1, new.tokens)
    ON CONFLICT (board, owner, zone, type, status)
    DO UPDATE SET items = figure.items + 1, tokens = figure.tokens + excluded.tokens;
    RETURN NULL;
END $$;
CREATE TRIGGER figure_of_new AFTER INSERT ON item FOR EACH ROW WHEN (new.deleted < 2)
EXECUTE FUNCTION figure_of_new();

CREATE FUNCTION figure_of_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE figure SET items = items - 1, tokens = tokens - old.tokens
    WHERE board = old.board AND owner = old.owner AND zone = old.zone AND type = old.type AND status = old.status
      AND old.deleted < 2;
    DELETE FROM figure
    WHERE board = old.board AND owner = old.owner AND zone = old.zone AND type = old.type AND status = old.status
      AND items = 0;
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    SELECT new.board, new.owner, new.zone, new.type, new.status, 1, new.tokens WHERE new.deleted < 2
    ON CONFLICT (board, owner, zone, type, status)
    DO UPDATE SET items = figure.items + 1, tokens = figure.tokens + excluded.tokens;
    RETURN NULL;
END $$;
CREATE TRIGGER figure_of_changed AFTER UPDATE OF zone, status, tokens, deleted ON item FOR EACH ROW
WHEN (old.zone <> new.zone OR old.status <> new.status OR old.tokens <> new.tokens
      OR (old.deleted = 2) <> (new.deleted = 2))
EXECUTE FUNCTION figure_of_changed();

CREATE FUNCTION artifact_of_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO artifact(board, path, folded, revision, gone)
    VALUES (new.board, new.path, new.folded, new.revision, (new.op = 'deleted')::int)
    ON CONFLICT (board, path) DO UPDATE SET revision = excluded.revision, gone = excluded.gone
    WHERE excluded.revision > artifact.revision;
    PERFORM store_bytes(new.board, new.agent, octet_length(new.body) + octet_length(new.message) + 1000);
    RETURN NULL;
END $$;
CREATE TRIGGER artifact_of_revision AFTER INSERT ON artifact_revision FOR EACH ROW
EXECUTE FUNCTION artifact_of_revision();

CREATE FUNCTION item_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kept_mark(mark) VALUES (new.owner) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER item_kept AFTER INSERT ON item FOR EACH ROW WHEN (new.owner LIKE 'read:%')
EXECUTE FUNCTION item_kept();

CREATE FUNCTION outbox_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox_row(reader, board, number) SELECT r.id, new.board, new.number FROM index_reader r;
    RETURN new;
END $$;
CREATE TRIGGER outbox_added INSTEAD OF INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION outbox_added();

CREATE FUNCTION outbox_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM outbox_row WHERE reader = current_setting('blackboard.reader') AND id = old.id;
    RETURN old;
END $$;
CREATE TRIGGER outbox_removed INSTEAD OF DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION outbox_removed();
