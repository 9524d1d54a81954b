-- What calls answered, by idempotency key. Values are bound by position: ?1, ?2, …

-- name: idempotency_get
-- The first answer of a mutation, while it is good.
SELECT digest, answer FROM idempotency WHERE board = ?1 AND agent = ?2 AND key = ?3 AND expires_at > ?4;

-- name: idempotency_put
-- Remember what a mutation answered; what was kept under the key is good no more.
INSERT INTO idempotency(board, agent, key, digest, answer, at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE SET digest = excluded.digest, answer = excluded.answer, at = excluded.at,
    expires_at = excluded.expires_at;

-- name: idempotency_due
-- Some of what is good no more, that which ended first.
SELECT board, agent, key FROM idempotency WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2;

-- name: idempotency_drop
-- Forget what was kept under a key.
DELETE FROM idempotency WHERE board = ?1 AND agent = ?2 AND key = ?3;
