-- Access tokens. Of a secret there is its SHA-256 alone; a row stays when its token has ended.
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    agent TEXT NOT NULL,
    owner TEXT NOT NULL,
    roles TEXT NOT NULL,
    scopes TEXT NOT NULL,
    trust TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX token_agent ON token(agent);
