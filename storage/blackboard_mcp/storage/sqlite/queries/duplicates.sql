-- What was said before. Values are bound by position: ?1, ?2, …

-- name: said_before
-- Items that stand of one author, type and sight with a text (its sha256 ?2, or ?6, what a finding says), which
-- the same post would only repeat, newest first: nothing that they cite got another version since, the author owes
-- nothing to what they cite, no request that they answer is open, and a critique still waits for its answer.
SELECT i.number FROM (
    SELECT number FROM item INDEXED BY item_said
    WHERE board = ?1 AND substr(sha256, 1, 16) = substr(?2, 1, 16) AND sha256 = ?2 AND author = ?3
      AND key IS NULL AND type NOT IN ('LOG', 'RESULT', 'SUMMARY')
    UNION
    SELECT number FROM finding WHERE board = ?1 AND fingerprint = substr(?6, 1, 33)
) s CROSS JOIN item i ON i.board = ?1 AND i.number = s.number
WHERE i.author = ?3 AND i.type = ?4 AND i.owner = ?5 AND VISIBLE(i.owner, ?3)
  AND i.key IS NULL AND i.expires_at IS NULL AND i.deleted = 0
  AND i.status IN ('ACTIVE', 'DEBATED') AND i.superseded = 0
  AND (i.type <> 'CRITIQUE' OR HIDDEN(i.owner) OR EXISTS (
      SELECT 1 FROM obligation o WHERE o.board = ?1 AND o.item = i.number AND o.duty = 'respond'
        AND o.state = 'outstanding'))
  AND NOT EXISTS (
      SELECT 1 FROM edge e WHERE e.board = ?1 AND e.source = i.number AND (
          EXISTS (SELECT 1 FROM obligation o WHERE o.board = ?1 AND o.item = e.target AND o.agent = ?3
                    AND o.state = 'outstanding' AND i.type <> 'CRITIQUE')
          OR EXISTS (SELECT 1 FROM request q WHERE q.board = ?1 AND q.number = e.target AND q.live = 1)
          OR EXISTS (SELECT 1 FROM event v WHERE v.board = ?1 AND v.item = e.target AND v.event = 'item.versioned'
                       AND v.seq > (SELECT min(p.seq) FROM event p WHERE p.board = ?1 AND p.item = i.number))))
ORDER BY i.number DESC LIMIT 20;

-- name: critiques_before
-- Critiques of some items (a JSON list) in open debates, older than an item, that an agent may see; oldest first.
SELECT DISTINCT i.number FROM edge e INDEXED BY edge_target
CROSS JOIN item i ON i.board = ?1 AND i.number = e.source AND i.type = 'CRITIQUE'
CROSS JOIN debate_critique c ON c.board = ?1 AND c.critique = i.number
CROSS JOIN debate d ON d.board = ?1 AND d.id = c.debate AND d.state = 'OPEN'
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND e.kind = 'critiques'
  AND i.number < ?3 AND i.status IN ('ACTIVE', 'DEBATED') AND VISIBLE(i.owner, ?4)
ORDER BY i.number;

-- name: findings_alike
-- Findings, older than one: of one type that say the same and fell; that fell and have one of some words (a JSON list
-- ?6); of one type that stand and say the same but for the numbers. The newest of each.
SELECT number, how FROM (
    SELECT f.number, 'same' AS how FROM finding f CROSS JOIN item i ON i.board = f.board AND i.number = f.number
    WHERE f.board = ?1 AND f.fingerprint = substr(?2, 1, 33) AND f.number < ?5 AND i.type = ?4 AND PUBLIC(i.owner)
      AND i.status IN ('WITHDRAWN', 'INVALIDATED')
    ORDER BY f.number DESC LIMIT 20)
UNION ALL
SELECT number, how FROM (
    SELECT DISTINCT f.number, 'close' AS how FROM json_each(?6) w
    CROSS JOIN finding f ON f.board = ?1 AND f.fingerprint = substr(w.value, 1, 33) AND f.number < ?5
    CROSS JOIN item i ON i.board = f.board AND i.number = f.number
    WHERE PUBLIC(i.owner) AND i.status IN ('WITHDRAWN', 'INVALIDATED')
    ORDER BY f.number DESC LIMIT 20)
UNION ALL
SELECT number, how FROM (
    SELECT f.number, 'numbers' AS how FROM finding f CROSS JOIN item i ON i.board = f.board AND i.number = f.number
    WHERE f.board = ?1 AND f.fingerprint = substr(?3, 1, 33) AND f.number < ?5 AND i.type = ?4 AND PUBLIC(i.owner)
      AND i.status IN ('ACTIVE', 'DEBATED') AND i.superseded = 0
      AND NOT EXISTS (SELECT 1 FROM finding s WHERE s.board = ?1 AND s.fingerprint = substr(?2, 1, 33) AND s.number = i.number)
    ORDER BY f.number DESC LIMIT 20);
