-- What was kept of a call is good until then, by the setting of its board at the time of the call.
ALTER TABLE idempotency ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
UPDATE idempotency SET expires_at = at + 604800000000;
CREATE INDEX idempotency_expiry ON idempotency(expires_at);
