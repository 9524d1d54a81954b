-- Requests from agent to agent, and the skills they may name. Values are bound by position: ?1, ?2, …

-- name: request_add
-- A new request.
INSERT INTO request(board, number, asker, agent, skill, state, live, opened_at, deadline, due_at, holder, held_until,
                    lease, parts, partial, answer, reason, ended_by, ended_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?8, '', 0, 0, 0, 0, 0, '', '', 0);

-- name: request_set
-- Everything of a request that may change.
UPDATE request SET state = ?3, live = ?4, due_at = ?5, holder = ?6, held_until = ?7, lease = ?8, parts = ?9,
    partial = ?10, answer = ?11, reason = ?12, ended_by = ?13, ended_at = ?14
WHERE board = ?1 AND number = ?2;

-- name: request_get
-- One request.
SELECT number, asker, agent, skill, state, opened_at, deadline, holder, held_until, lease, parts, partial, answer,
       reason, ended_by, ended_at
FROM request WHERE board = ?1 AND number = ?2;

-- name: requests_for
-- Live requests to an agent by name that it does not hold, oldest first.
SELECT number FROM request INDEXED BY request_for
WHERE board = ?1 AND agent = ?2 AND live = 1 AND holder <> ?2 ORDER BY number LIMIT ?3;

-- name: requests_held
-- Live requests that an agent holds, oldest first.
SELECT number FROM request INDEXED BY request_held
WHERE board = ?1 AND holder = ?2 AND live = 1 ORDER BY number LIMIT ?3;

-- name: requests_by_skill
-- Live requests by the skills that an agent offers, that nobody holds at ?4 and it did not decline, oldest first.
SELECT r.number FROM skill s CROSS JOIN request r INDEXED BY request_skill
    ON r.board = s.board AND r.skill = s.skill AND r.live = 1
WHERE s.board = ?1 AND s.agent = ?2 AND r.asker <> ?2 AND r.holder <> ?2 AND (r.holder = '' OR r.held_until <= ?4)
  AND NOT EXISTS (SELECT 1 FROM request_declined d WHERE d.board = ?1 AND d.number = r.number AND d.agent = ?2)
ORDER BY r.number LIMIT ?3;

-- name: requests_asked
-- Live requests that an agent asked, oldest first.
SELECT number FROM request INDEXED BY request_asked
WHERE board = ?1 AND asker = ?2 AND live = 1 ORDER BY number LIMIT ?3;

-- name: requests_live
-- Counts the live requests of a board, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM request INDEXED BY request_for WHERE board = ?1 AND live = 1 LIMIT ?2);

-- name: requests_among
-- Live requests that some items (a JSON list) are, or are the answer so far of.
SELECT number, agent, skill, holder FROM request
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND live = 1
UNION ALL
SELECT partial, agent, skill, holder FROM request
WHERE board = ?1 AND partial IN (SELECT value FROM json_each(?2)) AND live = 1 AND partial > 0;

-- name: requests_owed
-- Live requests that wait for an agent's answer: by name, that it holds, or by a skill of its that nobody holds.
SELECT number AS item, 'answer', 'QUESTION', opened_at AS since FROM request INDEXED BY request_for
WHERE board = ?1 AND agent = ?2 AND live = 1
UNION ALL
SELECT number, 'answer', 'QUESTION', opened_at FROM request INDEXED BY request_held
WHERE board = ?1 AND holder = ?2 AND live = 1 AND agent <> ?2
UNION ALL
SELECT r.number, 'answer', 'QUESTION', r.opened_at FROM skill s CROSS JOIN request r INDEXED BY request_skill
    ON r.board = s.board AND r.skill = s.skill AND r.live = 1
WHERE s.board = ?1 AND s.agent = ?2 AND r.asker <> ?2 AND r.holder = ''
  AND NOT EXISTS (SELECT 1 FROM request_declined d WHERE d.board = ?1 AND d.number = r.number AND d.agent = ?2)
ORDER BY since, item LIMIT 50;

-- name: request_decline
-- An agent declines a request.
INSERT INTO request_declined(board, number, agent, reason, at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET reason = excluded.reason, at = excluded.at;

-- name: request_declines
-- The agents that declined a request, the first first.
SELECT agent, reason FROM request_declined WHERE board = ?1 AND number = ?2 ORDER BY at, agent;

-- name: requests_due
-- Boards on which a request is due at ?1; boards in the state ?2 are left as they are.
SELECT DISTINCT b.id FROM request r INDEXED BY request_due JOIN board b ON b.no = r.board
WHERE r.live = 1 AND r.due_at <= ?1 AND b.lifecycle <> ?2;

-- name: requests_due_on
-- Requests of a board that are due at ?2, the longest due first.
SELECT number FROM request WHERE board = ?1 AND live = 1 AND due_at <= ?2 ORDER BY due_at, number LIMIT ?3;

-- name: skill_add
-- An agent offers a skill; one that it offers already is offered anew.
INSERT INTO skill(board, agent, skill, since) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET since = excluded.since;

-- name: skill_drop
-- An agent offers a skill no more.
DELETE FROM skill WHERE board = ?1 AND agent = ?2 AND skill = ?3;

-- name: skills_of
-- The skills an agent offers, by name.
SELECT skill FROM skill WHERE board = ?1 AND agent = ?2 ORDER BY skill;

-- name: skills_on_board
-- Counts the skills that agents offer on a board.
SELECT count(*) FROM skill WHERE board = ?1;

-- name: skills_offered
-- Skills offered on a board by agents who offered them, or were there, after ?2; who has offered longest first.
SELECT s.skill, s.agent FROM skill s LEFT JOIN agent a ON a.board = s.board AND a.name = s.agent
WHERE s.board = ?1 AND max(s.since, coalesce(a.last_seen, 0)) > ?2 ORDER BY s.skill, s.since, s.agent;

-- name: offering
-- Agents who offer a skill and were there after ?3, who has offered longest first.
SELECT s.agent FROM skill s INDEXED BY skill_offered LEFT JOIN agent a ON a.board = s.board AND a.name = s.agent
WHERE s.board = ?1 AND s.skill = ?2 AND max(s.since, coalesce(a.last_seen, 0)) > ?3
ORDER BY s.since, s.agent LIMIT ?4;

-- name: agent_there
-- 1 if an agent was ever on a board.
SELECT 1 FROM agent WHERE board = ?1 AND name = ?2;

-- name: skills_lapsing
-- Boards where at ?1 the offer of an absent agent has lapsed. ?2 is the setting of boards that were made before there
-- was one; boards in the state ?3 are left as they are.
WITH rule(no, id, lease) AS (
    SELECT no, id, coalesce(json_extract(config, '$.skill_lease_seconds'), ?2) * 1000000 FROM board WHERE lifecycle <> ?3
)
SELECT DISTINCT r.id FROM skill s JOIN rule r ON r.no = s.board
LEFT JOIN agent a ON a.board = s.board AND a.name = s.agent
WHERE s.since < ?1 AND r.lease > 0 AND max(s.since, coalesce(a.last_seen, 0)) + r.lease <= ?1;

-- name: skills_of_the_absent
-- Skills offered since ?2 or longer by agents who were last there then or before, oldest first.
SELECT s.agent, s.skill FROM skill s LEFT JOIN agent a ON a.board = s.board AND a.name = s.agent
WHERE s.board = ?1 AND s.since <= ?2 AND coalesce(a.last_seen, 0) <= ?2 ORDER BY s.since, s.agent, s.skill LIMIT ?3;
