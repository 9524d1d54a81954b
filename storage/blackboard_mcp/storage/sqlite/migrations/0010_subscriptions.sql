-- When a subscription was last used, to within a part of its lease.
ALTER TABLE subscription ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE subscription SET used_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000000;
CREATE INDEX subscription_used ON subscription(board, used_at);

-- Subscriptions that nobody used any more: where they stood, for whoever comes back.
CREATE TABLE subscription_expired (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    filter TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    expired_at INTEGER NOT NULL,
    PRIMARY KEY (board, agent, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscription_expired_at ON subscription_expired(board, expired_at);
