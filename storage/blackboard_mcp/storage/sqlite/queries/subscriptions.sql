-- Subscriptions: a filter, a cursor, and when they were last used. Values are bound by position: ?1, ?2, …

-- name: subscription_add
-- A new subscription, used now.
INSERT INTO subscription(board, id, agent, name, filter, cursor, created_at, used_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7);

-- name: subscriptions
-- An agent's subscriptions, oldest first.
SELECT id, agent, name, filter, cursor, created_at, used_at, NULL FROM subscription
WHERE board = ?1 AND agent = ?2 ORDER BY created_at, id;

-- name: subscriptions_expired
-- An agent's expired subscriptions, newest first.
SELECT id, agent, name, filter, cursor, created_at, used_at, expired_at FROM subscription_expired
WHERE board = ?1 AND agent = ?2 ORDER BY expired_at DESC, id LIMIT ?3;

-- name: subscription
-- One subscription of an agent, by id or name.
SELECT id, agent, name, filter, cursor, created_at, used_at, NULL FROM subscription
WHERE board = ?1 AND agent = ?2 AND (id = ?3 OR (name = ?3 AND name <> '')) ORDER BY id = ?3 DESC LIMIT 1;

-- name: subscription_expired
-- One expired subscription of an agent, by id or name: the last of that name.
SELECT id, agent, name, filter, cursor, created_at, used_at, expired_at FROM subscription_expired
WHERE board = ?1 AND agent = ?2 AND (id = ?3 OR (name = ?3 AND name <> ''))
ORDER BY id = ?3 DESC, expired_at DESC LIMIT 1;

-- name: subscription_drop
-- End a subscription.
DELETE FROM subscription WHERE board = ?1 AND agent = ?2 AND id = ?3;

-- name: subscription_expired_drop
-- Forget an expired subscription.
DELETE FROM subscription_expired WHERE board = ?1 AND agent = ?2 AND id = ?3;

-- name: subscription_forward
-- A cursor is at ?4 at least, and the subscription was used.
UPDATE subscription SET cursor = max(cursor, ?4), used_at = max(used_at, ?5)
WHERE board = ?1 AND agent = ?2 AND id = ?3;

-- name: subscription_advance
-- Move a cursor that stands at ?6, and at nothing else; a row when it did.
UPDATE subscription SET cursor = ?4, used_at = max(used_at, ?5)
WHERE board = ?1 AND agent = ?2 AND id = ?3 AND cursor = ?6 RETURNING cursor;

-- name: subscription_return
-- A cursor is at ?4 at most.
UPDATE subscription SET cursor = ?4 WHERE board = ?1 AND agent = ?2 AND id = ?3 AND cursor > ?4;

-- name: subscriptions_abandoned_somewhere
-- Boards where at ?1 a subscription was unused for too long, or one expired as long ago. ?2 is the setting of
-- boards that were made before there was one.
WITH rule(no, id, lease) AS (
    SELECT no, id, coalesce(json_extract(config, '$.subscription_lease_seconds'), ?2) * 1000000 FROM board
)
SELECT id FROM rule r WHERE lease > 0 AND (
    EXISTS (SELECT 1 FROM subscription s WHERE s.board = r.no AND s.used_at <= ?1 - r.lease)
    OR EXISTS (SELECT 1 FROM subscription_expired e WHERE e.board = r.no AND e.expired_at <= ?1 - r.lease)
);

-- name: subscriptions_abandoned
-- Subscriptions last used at ?2 or before, longest unused first.
SELECT agent, id FROM subscription WHERE board = ?1 AND used_at <= ?2 ORDER BY used_at LIMIT ?3;

-- name: subscription_expire
-- Keep where a subscription stood.
INSERT INTO subscription_expired(board, agent, id, name, filter, cursor, created_at, used_at, expired_at)
SELECT board, agent, id, name, filter, cursor, created_at, used_at, ?4 FROM subscription
WHERE board = ?1 AND agent = ?2 AND id = ?3
ON CONFLICT DO UPDATE SET name = excluded.name, filter = excluded.filter, cursor = excluded.cursor,
    created_at = excluded.created_at, used_at = excluded.used_at, expired_at = excluded.expired_at;

-- name: subscriptions_long_expired
-- Subscriptions that expired at ?2 or before.
SELECT agent, id FROM subscription_expired WHERE board = ?1 AND expired_at <= ?2 ORDER BY expired_at LIMIT ?3;
