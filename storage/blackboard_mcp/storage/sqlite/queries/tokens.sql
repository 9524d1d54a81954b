-- Access tokens. Values are bound by position: ?1, ?2, …

-- name: token_any
-- 1 if there is a token or was one.
SELECT EXISTS (SELECT 1 FROM token);

-- name: token_add
-- A new token.
INSERT INTO token(id, digest, agent, owner, roles, scopes, trust, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: token
-- One token.
SELECT id, digest, agent, owner, roles, scopes, trust, created_at, expires_at, revoked_at, used_at
FROM token WHERE id = ?1;

-- name: tokens
-- All tokens, oldest first.
SELECT id, digest, agent, owner, roles, scopes, trust, created_at, expires_at, revoked_at, used_at
FROM token ORDER BY created_at, id;

-- name: token_owner_other
-- A token that counted after ?3 and has the agent act for somebody else, and when it ends; a revoked one last.
SELECT id, owner, coalesce(revoked_at, expires_at) FROM token
WHERE agent = ?1 AND owner <> ?2 AND (revoked_at IS NULL OR revoked_at > ?3) AND (expires_at IS NULL OR expires_at > ?3)
ORDER BY revoked_at IS NOT NULL LIMIT 1;

-- name: token_trust_other
-- A token that counted after ?3 and has the agent relied on differently, and when it ends; a revoked one last.
SELECT id, trust, coalesce(revoked_at, expires_at) FROM token
WHERE agent = ?1 AND trust <> ?2 AND (revoked_at IS NULL OR revoked_at > ?3) AND (expires_at IS NULL OR expires_at > ?3)
ORDER BY revoked_at IS NOT NULL LIMIT 1;

-- name: token_of_agent
-- A token of an agent that counts now: all of them name one owner and one trust.
SELECT id, digest, agent, owner, roles, scopes, trust, created_at, expires_at, revoked_at, used_at
FROM token WHERE agent = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1;

-- name: token_revoke
-- A token ends.
UPDATE token SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL;

-- name: token_used
-- A token was used.
UPDATE token SET used_at = ?2 WHERE id = ?1 AND (used_at IS NULL OR used_at < ?2);
