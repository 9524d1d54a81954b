-- Runs, their turns and offers. Values are bound by position: ?1, ?2, …

-- name: run_last
-- The highest number of a run on a board.
SELECT coalesce(max(number), 0) FROM run WHERE board = ?1;

-- name: run_get
-- One run, with the text of its problem, which is for everybody, whether agents offered something for its next
-- round, and which of those that it names have left (a JSON list); with 0 the newest.
SELECT board, number, problem, state, phase, strategy, fallback, agents, round, max_rounds, budget, spent, coordinator,
       decider, sealed, coordinate, decide, idle, started_by, started_at, moved_at, stamp, malformed, stalls, resets,
       reason, answer, strategy_state,
       (SELECT text FROM item i WHERE i.board = run.board AND i.number = run.problem),
       EXISTS (SELECT 1 FROM run_offer o WHERE o.board = run.board AND o.run = run.number),
       (SELECT json_group_array(p.agent) FROM participant p
        WHERE p.board = run.board AND p.left_at > 0 AND p.agent IN (SELECT value FROM json_each(run.agents)))
FROM run WHERE board = ?1
  AND number = CASE WHEN ?2 = 0 THEN (SELECT max(number) FROM run WHERE board = ?1) ELSE ?2 END;

-- name: run_live
-- The run of a board that is not over.
SELECT number, state FROM run INDEXED BY run_live WHERE board = ?1 AND state IN ('open', 'settled');

-- name: run_add
-- A new run.
INSERT INTO run(board, number, problem, state, phase, strategy, fallback, agents, round, max_rounds, budget, spent,
                coordinator, decider, sealed, coordinate, decide, idle, started_by, started_at, moved_at, stamp,
                malformed, stalls, resets, reason, answer, strategy_state)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
        ?25, ?26, ?27, ?28);

-- name: run_put
-- A run as it is now.
UPDATE run SET state = ?4, phase = ?5, strategy = ?6, round = ?9, spent = ?12, moved_at = ?21, stamp = ?22,
               malformed = ?23, stalls = ?24, resets = ?25, reason = ?26, answer = ?27, strategy_state = ?28
WHERE board = ?1 AND number = ?2;

-- name: turn_add
-- An agent has its turn.
INSERT INTO run_turn(board, run, lease, round, agent, kind, until, instruction, state, text, item, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- name: turn_put
-- A turn as it is now.
UPDATE run_turn SET until = ?7, state = ?9, text = ?10, item = ?11, at = ?12 WHERE board = ?1 AND run = ?2 AND lease = ?3;

-- name: turns_of
-- The last ?3 turns of a run, newest first.
SELECT board, run, lease, round, agent, kind, until, instruction, state, text, item, at
FROM run_turn WHERE board = ?1 AND run = ?2 ORDER BY lease DESC LIMIT ?3;

-- name: turns_lapsing
-- Turns whose time ended by ?1 on boards in the state ?3, with when their agent was last there.
SELECT t.board, t.run, t.lease, b.id, t.agent, t.until, coalesce(a.last_seen, 0)
FROM run_turn t INDEXED BY run_turn_lapses JOIN board b ON b.no = t.board
LEFT JOIN agent a ON a.board = t.board AND a.name = t.agent
WHERE t.state = 'given' AND t.until <= ?1 AND b.lifecycle = ?3 ORDER BY t.until LIMIT ?2;

-- name: turn_next
-- When the next turn may lapse on a board in the state ?1.
SELECT t.until FROM run_turn t INDEXED BY run_turn_lapses JOIN board b ON b.no = t.board
WHERE t.state = 'given' AND b.lifecycle = ?1 ORDER BY t.until LIMIT 1;

-- name: runs_idle
-- Open runs that settle after a time without events, with that time and the last event of their boards, which are in
-- the state ?1.
SELECT b.id, r.number, r.idle, (SELECT at FROM event e WHERE e.board = r.board AND e.seq = b.seq)
FROM run r INDEXED BY run_live JOIN board b ON b.no = r.board
WHERE r.state IN ('open', 'settled') AND r.state = 'open' AND r.idle > 0 AND b.lifecycle = ?1;

-- name: offer_put
-- An agent volunteers for the next round.
INSERT INTO run_offer(board, run, agent, offer) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET offer = excluded.offer;

-- name: offers_of
-- What agents offered for the next round, the highest first.
SELECT agent, offer FROM run_offer WHERE board = ?1 AND run = ?2 ORDER BY offer DESC, agent;

-- name: offers_drop
-- Offers were for one round.
DELETE FROM run_offer WHERE board = ?1 AND run = ?2;

-- name: run_moved
-- Whether anything but the run's own turns changed on a board after ?2, the first lease of the present round.
SELECT EXISTS (SELECT 1 FROM event e WHERE e.board = ?1 AND e.seq > ?2 AND e.agent <> 'system'
    AND e.event IN ('item.versioned', 'item.changed', 'item.deleted', 'item.endorsed', 'debate.opened', 'debate.closed',
                    'obligation.met', 'agreement.given', 'claim.done', 'claim.taken', 'claim.verified', 'plan.added',
                    'stage.moved', 'request.answered'))
    OR EXISTS (SELECT 1 FROM event e JOIN item i ON i.board = e.board AND i.number = e.item
               WHERE e.board = ?1 AND e.seq > ?2 AND e.event = 'item.posted'
                 AND NOT EXISTS (SELECT 1 FROM run_turn t WHERE t.board = e.board AND t.run = ?3 AND t.lease >= ?2
                                   AND t.item = i.number));

-- name: turns_repeat
-- Whether contributions of a round repeat what the same agent contributed in the 20 rounds before: counts them, and
-- those that do.
SELECT count(*), coalesce(sum(EXISTS (
    SELECT 1 FROM run_turn o INDEXED BY run_turn_round CROSS JOIN item j ON j.board = o.board AND j.number = o.item
    WHERE o.board = t.board AND o.run = t.run AND o.round BETWEEN t.round - 20 AND t.round - 1 AND o.agent = t.agent
      AND j.sha256 = i.sha256)), 0)
FROM run_turn t INDEXED BY run_turn_round CROSS JOIN item i ON i.board = t.board AND i.number = t.item
WHERE t.board = ?1 AND t.run = ?2 AND t.round = ?3 AND t.item > 0;

-- name: turns_same
-- Whether every turn of a round repeats agent and instruction of the round before, and none had an item.
SELECT count(*) > 0 AND count(*) = sum(t.instruction <> '' AND EXISTS (
    SELECT 1 FROM run_turn o INDEXED BY run_turn_round
    WHERE o.board = t.board AND o.run = t.run AND o.round = t.round - 1
       AND o.agent = t.agent AND o.instruction = t.instruction))
FROM run_turn t INDEXED BY run_turn_round
WHERE t.board = ?1 AND t.run = ?2 AND t.round = ?3 AND t.kind = 'contribute';

-- name: answer_last
-- The newest ANSWER that everybody sees and that was posted after a sequence.
SELECT i.number FROM event e JOIN item i ON i.board = e.board AND i.number = e.item
WHERE e.board = ?1 AND e.seq > ?2 AND e.event = 'item.posted' AND e.type = 'ANSWER' AND PUBLIC(i.owner)
  AND i.status IN ('ACTIVE', 'DEBATED', 'RESOLVED') ORDER BY e.seq DESC LIMIT 1;

-- name: contribution_last
-- The newest contribution to a run.
SELECT item FROM run_turn WHERE board = ?1 AND run = ?2 AND item > 0 AND kind = 'contribute' ORDER BY at DESC, lease DESC
LIMIT 1;

-- name: contributions_of
-- Items that were contributed to a run.
SELECT item FROM run_turn WHERE board = ?1 AND run = ?2 AND item > 0 ORDER BY lease DESC LIMIT ?3;

-- name: against
-- What stands against some items (a JSON list): source, its type, kind of edge, and whether its debate is open.
SELECT DISTINCT e.source, i.type, e.kind, EXISTS (
    SELECT 1 FROM debate_critique c JOIN debate d ON d.board = c.board AND d.id = c.debate
    WHERE c.board = e.board AND c.critique = e.source AND d.state = 'OPEN')
FROM edge e INDEXED BY edge_target JOIN item i ON i.board = e.board AND i.number = e.source
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND e.kind IN ('critiques', 'refutes')
  AND i.status IN ('ACTIVE', 'DEBATED') AND PUBLIC(i.owner) ORDER BY e.source;

-- name: run_begun
-- The sequence at which a run started, which is after its problem was posted.
SELECT seq FROM event WHERE board = ?1 AND event = 'run.started' AND json_extract(data, '$.run') = ?3
  AND seq > (SELECT seq FROM event INDEXED BY event_item WHERE board = ?1 AND item = ?2 AND item IS NOT NULL
             ORDER BY seq LIMIT 1)
ORDER BY seq LIMIT 1;
