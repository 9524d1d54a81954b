-- What is said of others' items: that one supersedes or refutes them. Values are bound by position: ?1, ?2, …

-- name: contests
-- Claims that items (a JSON list) are superseded or refuted, oldest first, by items that did not fall and that the
-- agent sees; and whether each is agreed. It is if the author of both is one and all who see the item see the claim,
-- if somebody agreed, or if what is refuted was invalidated.
SELECT e.target, e.kind, s.type, s.number, s.author,
       (s.author = t.author AND SHARED(s.owner, t.owner))
       OR (e.kind = 'refutes' AND t.status = 'INVALIDATED')
       OR EXISTS (SELECT 1 FROM agreed_claim a WHERE a.board = e.board AND a.source = e.source AND a.kind = e.kind
                    AND a.target = e.target)
FROM json_each(?2) w
CROSS JOIN edge e INDEXED BY edge_target ON e.board = ?1 AND e.target = w.value AND e.kind IN ('supersedes', 'refutes')
CROSS JOIN item s ON s.board = ?1 AND s.number = e.source AND VISIBLE(s.owner, ?3)
CROSS JOIN item t ON t.board = ?1 AND t.number = e.target
WHERE s.status NOT IN ('WITHDRAWN', 'INVALIDATED') ORDER BY e.source, e.kind;

-- name: claims_of
-- Claims of an item about public items of other authors that nobody has agreed to.
SELECT e.kind, e.target FROM edge e CROSS JOIN item t ON t.board = e.board AND t.number = e.target
WHERE e.board = ?1 AND e.source = ?2 AND e.kind IN ('supersedes', 'refutes') AND t.author <> ?3 AND PUBLIC(t.owner)
  AND NOT EXISTS (SELECT 1 FROM agreed_claim a WHERE a.board = e.board AND a.source = e.source AND a.kind = e.kind
                    AND a.target = e.target)
ORDER BY e.kind, e.target;

-- name: claim_agree
-- A claim is agreed to.
INSERT INTO agreed_claim(board, source, kind, target, agent, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING;

-- name: claim_supersedes
-- Marks an item as superseded by agreement.
UPDATE item SET superseded = 1 WHERE board = ?1 AND number = ?2;

-- name: former
-- Counts the items of its own author that each of some items (a JSON list) has replaced, one after the other.
WITH RECURSIVE chain(first, number, author) AS (
    SELECT i.number, i.number, i.author FROM item i
    WHERE i.board = ?1 AND i.number IN (SELECT value FROM json_each(?2))
    UNION
    SELECT c.first, t.number, c.author FROM chain c
    CROSS JOIN edge e ON e.board = ?1 AND e.source = c.number AND e.kind = 'supersedes'
    CROSS JOIN item t ON t.board = ?1 AND t.number = e.target AND t.author = c.author AND VISIBLE(t.owner, ?3)
    LIMIT 5000
)
SELECT first, count(*) - 1 FROM chain GROUP BY first HAVING count(*) > 1;

-- name: adopted
-- For some replies (a JSON list) to items of others, what the author of such an item made of them: a version of it
-- or an item that supersedes it and is derived from the reply; the newest.
SELECT r.source, a.type, max(a.number) FROM json_each(?2) w
CROSS JOIN edge r ON r.board = ?1 AND r.source = w.value AND r.kind = 'replies_to'
CROSS JOIN item t ON t.board = ?1 AND t.number = r.target AND t.type IN ('PLAN', 'DECISION', 'HYPOTHESIS')
CROSS JOIN edge d INDEXED BY edge_target ON d.board = ?1 AND d.target = r.source AND d.kind = 'derived_from'
CROSS JOIN item a ON a.board = ?1 AND a.number = d.source AND a.author = t.author AND VISIBLE(a.owner, ?3)
WHERE a.number = t.number OR EXISTS (SELECT 1 FROM edge s WHERE s.board = ?1 AND s.source = a.number
                                       AND s.kind = 'supersedes' AND s.target = t.number)
GROUP BY r.source;

-- name: undecided_put
-- A decision is by who is no decider.
INSERT INTO undecided(board, number) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- name: undecided_drop
-- A decision is by a decider, or nobody is named one.
DELETE FROM undecided WHERE board = ?1 AND number = ?2;

-- name: undecided_among
-- The items of a list (JSON) that are decisions by an agent that is no decider.
SELECT number FROM undecided WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));
