-- Tasks of the agenda, attempts at them, and their order. Values are bound by position: ?1, ?2, …

-- name: task_last
-- The highest number of a task on a board.
SELECT coalesce(max(number), 0) FROM task WHERE board = ?1;

-- name: tasks_open
-- How many tasks of a board are not over, up to ?2.
SELECT count(*) FROM (SELECT 1 FROM task INDEXED BY task_open
                      WHERE board = ?1 AND state NOT IN ('COMPLETED', 'CANCELLED') LIMIT ?2);

-- name: tasks_any
-- Whether a board has tasks that are not over.
SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_open
               WHERE board = ?1 AND state NOT IN ('COMPLETED', 'CANCELLED'));

-- name: tasks_over
-- How many tasks of a board are over, by state, up to ?2 each.
SELECT 'COMPLETED', count(*) FROM (
    SELECT 1 FROM task INDEXED BY task_over WHERE board = ?1 AND state = 'COMPLETED'
      AND state IN ('COMPLETED', 'CANCELLED') LIMIT ?2)
UNION ALL
SELECT 'CANCELLED', count(*) FROM (
    SELECT 1 FROM task INDEXED BY task_over WHERE board = ?1 AND state = 'CANCELLED'
      AND state IN ('COMPLETED', 'CANCELLED') LIMIT ?2);

-- name: tasks_last
-- The tasks of a board that ended last, of the thousand that were planned last, on a board of which none is open.
SELECT number FROM (SELECT number, moved_at FROM task WHERE board = ?1 ORDER BY number DESC LIMIT 1000) t
ORDER BY moved_at DESC, number DESC LIMIT ?2;

-- name: tasks_newest_open
-- The tasks that are not over, of the ?2 that were planned last.
SELECT number, title, state, created_by, holder
FROM (SELECT number, title, state, created_by, holder FROM task WHERE board = ?1 ORDER BY number DESC LIMIT ?2) t
WHERE state NOT IN ('COMPLETED', 'CANCELLED', 'FAULTED') ORDER BY number;

-- name: task_add
-- A new task.
INSERT INTO task(board, number, title, text, skill, worker, trigger_if, triggered, priority, stage, required, verify,
                 retries, paths, state, blockers, attempts, failures, holder, lease, length, until, waits_on,
                 waits_for, result, why, created_by, created_at, moved_at, dead_end, cost)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
        ?25, ?26, ?27, ?28, ?29, ?30, ?31);

-- name: tasks_get
-- Tasks by number (a JSON list).
SELECT board, number, title, text, skill, worker, trigger_if, triggered, priority, stage, required, verify,
       retries, paths, state, blockers, attempts, failures, holder, lease, length, until, waits_on,
       waits_for, result, why, created_by, created_at, moved_at, dead_end, cost
FROM task WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) ORDER BY number;

-- name: task_put
-- A task as it is now.
UPDATE task SET title = ?3, text = ?4, skill = ?5, worker = ?6, trigger_if = ?7, triggered = ?8, priority = ?9,
                stage = ?10, required = ?11, verify = ?12, retries = ?13, paths = ?14, state = ?15, blockers = ?16,
                attempts = ?17, failures = ?18, holder = ?19, lease = ?20, length = ?21, until = ?22, waits_on = ?23,
                waits_for = ?24, result = ?25, why = ?26, moved_at = ?29, dead_end = ?30, cost = ?31
WHERE board = ?1 AND number = ?2;

-- name: task_renew
-- The lease of a task is longer, since its holder made a call.
UPDATE task SET until = ?3 WHERE board = ?1 AND number = ?2;

-- name: tasks_dead
-- The newest FAULTED or CANCELLED task with each of these titles (a JSON list of fingerprints).
SELECT t.dead_end, t.number, t.state, t.why FROM json_each(?2) f
CROSS JOIN task t ON t.board = ?1 AND t.number = (
    SELECT max(d.number) FROM task d INDEXED BY task_dead_end
    WHERE d.board = ?1 AND d.dead_end = f.value AND d.dead_end <> '');

-- name: findings_fallen
-- Findings that say one of these (a JSON list of fingerprints) and fell, the newest first.
SELECT w.value, i.type, i.number, i.status FROM json_each(?2) w
CROSS JOIN finding f ON f.board = ?1 AND f.fingerprint = substr(w.value, 1, 33)
CROSS JOIN item i ON i.board = f.board AND i.number = f.number
WHERE PUBLIC(i.owner) AND i.status IN ('WITHDRAWN', 'INVALIDATED') ORDER BY i.number DESC LIMIT ?3;

-- name: findings_fallen_close
-- Findings that fell and have one of some words (a JSON list), the newest first.
SELECT i.type, i.number, i.status, i.text FROM (
    SELECT DISTINCT f.number FROM json_each(?2) w
    CROSS JOIN finding f ON f.board = ?1 AND f.fingerprint = substr(w.value, 1, 33)
    ORDER BY f.number DESC LIMIT ?3) n
CROSS JOIN item i ON i.board = ?1 AND i.number = n.number
WHERE PUBLIC(i.owner) AND i.status IN ('WITHDRAWN', 'INVALIDATED') ORDER BY i.number DESC;

-- name: findings_fallen_archived
-- Findings that fell and left working memory, and that an agent may see, newest first.
SELECT number FROM item INDEXED BY item_fallen
WHERE board = ?1 AND zone = 'archive' AND deleted = 0 AND status IN ('WITHDRAWN', 'INVALIDATED')
  AND type IN ('FACT', 'HYPOTHESIS', 'DECISION', 'PLAN', 'ANSWER', 'RESULT') AND VISIBLE(owner, ?2)
ORDER BY number DESC LIMIT ?3;

-- name: tasks_failed
-- The newest tasks that failed or were cancelled.
SELECT number, title, state, why FROM task INDEXED BY task_failed
WHERE board = ?1 AND dead_end <> '' ORDER BY number DESC LIMIT ?2;

-- name: after_add
-- A task comes after another.
INSERT INTO task_after(board, task, after_task) VALUES (?1, ?2, ?3);

-- name: after_drop
-- A task comes after no other.
DELETE FROM task_after WHERE board = ?1 AND task = ?2;

-- name: after_of
-- What tasks (a JSON list) come after, with state and holder of each.
SELECT a.task, a.after_task, t.state, t.holder FROM task_after a
CROSS JOIN task t ON t.board = a.board AND t.number = a.after_task
WHERE a.board = ?1 AND a.task IN (SELECT value FROM json_each(?2)) ORDER BY a.task, a.after_task;

-- name: before_of
-- Tasks that are not over and come after one of these (a JSON list).
SELECT DISTINCT a.task FROM task_after a INDEXED BY task_before
JOIN task t ON t.board = a.board AND t.number = a.task
WHERE a.board = ?1 AND a.after_task IN (SELECT value FROM json_each(?2))
  AND t.state NOT IN ('COMPLETED', 'CANCELLED') ORDER BY a.task LIMIT ?3;

-- name: before_count
-- A task (?2) is done; returns the tasks after it, and whether each waits for no other task and no trigger.
UPDATE task SET blockers = blockers - 1
WHERE board = ?1 AND number IN (SELECT task FROM task_after INDEXED BY task_before WHERE board = ?1 AND after_task = ?2)
RETURNING number, worker, stage,
    CASE WHEN blockers = 0 AND state = 'PENDING' AND (trigger_if = '' OR triggered = 1) THEN 1 ELSE 0 END;

-- name: after_circle
-- A task that comes after itself: everything that it comes after.
WITH RECURSIVE up(n) AS (
    SELECT after_task FROM task_after WHERE board = ?1 AND task = ?2
    UNION SELECT a.after_task FROM up CROSS JOIN task_after a NOT INDEXED ON a.board = ?1 AND a.task = up.n
)
SELECT a.task, a.after_task FROM up CROSS JOIN task_after a NOT INDEXED ON a.board = ?1 AND a.task = up.n
WHERE EXISTS (SELECT 1 FROM up WHERE n = ?2);

-- name: sub_board_add
-- A board below does a task.
INSERT INTO sub_board(board, task, spec, since) VALUES (?1, ?2, ?3, 0);

-- name: sub_boards_of
-- What tasks (a JSON list) that boards below do give and bring back.
SELECT task, spec FROM sub_board WHERE board = ?1 AND task IN (SELECT value FROM json_each(?2));

-- name: sub_board_note
-- A task is given to the board below when that is at this sequence; the first such note counts.
UPDATE sub_board SET since = ?3 WHERE board = ?1 AND task = ?2 AND since = 0;

-- name: sub_boards_noted
-- Tasks other than ?3 that are being given to the board below of a binding (?2).
SELECT t.number FROM task t INDEXED BY task_below JOIN sub_board s ON s.board = t.board AND s.task = t.number
WHERE substr(t.worker, 1, 6) = 'board:' AND t.state IN ('PENDING', 'RUNNING', 'WAITING') AND t.state = 'PENDING'
  AND t.board = ?1 AND t.worker = ?2 AND s.since > 0 AND t.number <> ?3;

-- name: sub_boards_renote
-- A task begins on the board below of a binding (?2): tasks other than ?3 that were to be given to it wait for answers
-- of their own.
UPDATE sub_board SET since = 0 WHERE board = ?1 AND since > 0 AND task <> ?3 AND task IN (
    SELECT number FROM task INDEXED BY task_below
    WHERE board = ?1 AND substr(worker, 1, 6) = 'board:' AND state IN ('PENDING', 'RUNNING', 'WAITING')
      AND state = 'PENDING' AND worker = ?2);

-- name: sub_board_forget
-- A task ended: what the board below answered so far counts no more.
UPDATE sub_board SET since = 0 WHERE board = ?1 AND task = ?2;

-- name: sub_boards_open
-- Whether boards in another state than ?1 have tasks that boards below do and that are not over.
SELECT EXISTS (
    SELECT 1 FROM task t INDEXED BY task_below JOIN board b ON b.no = t.board
    WHERE substr(t.worker, 1, 6) = 'board:' AND t.state IN ('PENDING', 'RUNNING', 'WAITING') AND b.lifecycle <> ?1);

-- name: sub_boards_due
-- Tasks of boards in the state ?1 that boards below are to begin or may have ended, with their boards, what they map, and
-- since when: those that wait for nothing while the board below does no other, and those whose board below lies
-- elsewhere by now, is in another state, or had a run that ended. One whose board below is not there waits until that is
-- imported.
SELECT b.id, t.number, t.state, s.spec, s.since
FROM task t INDEXED BY task_below JOIN board b ON b.no = t.board
JOIN sub_board s ON s.board = t.board AND s.task = t.number
WHERE substr(t.worker, 1, 6) = 'board:' AND t.state IN ('PENDING', 'RUNNING', 'WAITING') AND b.lifecycle = ?1
  AND (t.state = 'PENDING' AND t.blockers = 0 AND (t.trigger_if = '' OR t.triggered = 1)
       AND NOT EXISTS (SELECT 1 FROM task o INDEXED BY task_worker
           WHERE o.board = t.board AND o.worker = t.worker AND o.state IN ('RUNNING', 'WAITING') AND o.worker <> '')
    OR t.state = 'WAITING' AND EXISTS (SELECT 1 FROM board w
           WHERE w.id = substr(t.worker, 7) AND (w.parent IS NULL OR w.parent <> b.id OR w.lifecycle <> ?1
               OR EXISTS (SELECT 1 FROM run r
                   WHERE r.board = w.no AND r.state IN ('finished', 'stopped') AND r.stamp > s.since))))
LIMIT ?2;

-- name: run_over_since
-- The newest run of a board that ended after a sequence.
SELECT number, state, reason, answer FROM run
WHERE board = ?1 AND state IN ('finished', 'stopped') AND stamp > ?2 ORDER BY number DESC LIMIT 1;

-- name: attempt_add
-- An attempt at a task ended.
INSERT INTO task_attempt(board, task, lease, agent, how, note, at, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO UPDATE SET how = excluded.how, note = excluded.note, result = excluded.result;

-- name: rejected_in_debate
-- The open debates on results of a task that a reviewer rejected, but for the result ?3, oldest first.
SELECT DISTINCT d.id FROM task_attempt t CROSS JOIN debate d INDEXED BY debate_root ON d.board = t.board AND d.root = t.result
WHERE t.board = ?1 AND t.task = ?2 AND t.result NOT IN (0, ?3) AND d.state = 'OPEN' ORDER BY d.id;

-- name: attempts
-- The last ?3 ended attempts at a task, newest first.
SELECT task, agent, lease, how, note, at FROM task_attempt
WHERE board = ?1 AND task = ?2 ORDER BY lease DESC, at DESC LIMIT ?3;

-- name: task_pick
-- Tasks for a worker or with a skill, or free ones, that could be taken: the best ?5, but for those in stages of ?4 and
-- those that cost more than ?6.
SELECT number, priority FROM task AS t INDEXED BY task_next
WHERE board = ?1 AND worker = ?2 AND skill = ?3 AND state = 'PENDING' AND blockers = 0
  AND (trigger_if = '' OR triggered = 1) AND stage NOT IN (SELECT value FROM json_each(?4)) AND cost <= ?6
  AND (trigger_if = '' OR NOT EXISTS (
      SELECT 1 FROM task o INDEXED BY task_trigger WHERE o.board = t.board AND o.trigger_if = t.trigger_if
         AND o.state IN ('RUNNING', 'WAITING') AND o.trigger_if <> ''))
ORDER BY priority DESC, number LIMIT ?5;

-- name: stages_closed
-- Stages in which nothing can be taken: those that are not active, and all under them.
WITH RECURSIVE closed(n) AS (
    SELECT number FROM stage WHERE board = ?1 AND state NOT IN ('ACTIVE', 'FAULTED')
    UNION SELECT s.number FROM closed JOIN stage s INDEXED BY stage_under ON s.board = ?1 AND s.parent = closed.n
)
SELECT c.n, s.state FROM closed c JOIN stage s ON s.board = ?1 AND s.number = c.n;

-- name: agenda_budget
-- The budget of an agenda with what was used, and how many tasks are held, at which planned cost.
SELECT b.board, b.steps, b.tokens, b.cost, b.seconds, b.used_steps, b.used_tokens, b.used_cost, b.used_seconds,
       b.set_by, b.told,
       (SELECT count(*) FROM task t INDEXED BY task_held
        WHERE t.board = b.board AND t.state IN ('RUNNING', 'WAITING')),
       (SELECT CAST(coalesce(sum(t.cost), 0) AS INTEGER) FROM task t INDEXED BY task_held
        WHERE t.board = b.board AND t.state IN ('RUNNING', 'WAITING'))
FROM agenda_budget b WHERE b.board = ?1;

-- name: agenda_budget_put
-- A budget as it is now.
INSERT INTO agenda_budget(board, steps, tokens, cost, seconds, used_steps, used_tokens, used_cost, used_seconds, set_by,
                          told)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT DO UPDATE SET steps = excluded.steps, tokens = excluded.tokens, cost = excluded.cost,
    seconds = excluded.seconds, used_steps = excluded.used_steps, used_tokens = excluded.used_tokens,
    used_cost = excluded.used_cost, used_seconds = excluded.used_seconds, set_by = excluded.set_by, told = excluded.told;

-- name: event_at
-- When an event happened.
SELECT at FROM event WHERE board = ?1 AND seq = ?2;

-- name: tasks_of_holder
-- Tasks that an agent holds, by number.
SELECT number FROM task INDEXED BY task_held
WHERE board = ?1 AND holder = ?2 AND state IN ('RUNNING', 'WAITING') ORDER BY number LIMIT ?3;

-- name: task_of_lease
-- The task whose newest lease this is.
SELECT number FROM task INDEXED BY task_held
WHERE board = ?1 AND holder = ?2 AND lease = ?3 AND state IN ('RUNNING', 'WAITING');

-- name: tasks_in
-- Tasks in a state, the best first.
SELECT number FROM task INDEXED BY task_open
WHERE board = ?1 AND state = ?2 AND state NOT IN ('COMPLETED', 'CANCELLED')
ORDER BY priority DESC, number LIMIT ?3;

-- name: tasks_to_settle
-- Tasks in review, and those that failed for good: the best ?2 of each.
SELECT number FROM (SELECT number FROM task INDEXED BY task_open
    WHERE board = ?1 AND state = 'REVIEW' AND state NOT IN ('COMPLETED', 'CANCELLED')
    ORDER BY priority DESC, number LIMIT ?2)
UNION ALL
SELECT number FROM (SELECT number FROM task INDEXED BY task_open
    WHERE board = ?1 AND state = 'FAULTED' AND state NOT IN ('COMPLETED', 'CANCELLED')
    ORDER BY priority DESC, number LIMIT ?2);

-- name: tasks_bound
-- The task other than ?4 that is held for a worker, or for a trigger.
SELECT number, holder, lease, until FROM task INDEXED BY task_worker
WHERE board = ?1 AND worker = ?2 AND worker <> '' AND state IN ('RUNNING', 'WAITING') AND number <> ?4
UNION ALL
SELECT number, holder, lease, until FROM task INDEXED BY task_trigger
WHERE board = ?1 AND trigger_if = ?3 AND trigger_if <> '' AND state IN ('RUNNING', 'WAITING') AND number <> ?4;

-- name: tasks_lapsing
-- Held tasks of a board whose lease ended by ?2, the longest ago first.
SELECT number FROM task INDEXED BY task_lapses
WHERE state IN ('RUNNING', 'WAITING') AND until <= ?2 AND board = ?1 ORDER BY until LIMIT ?3;

-- name: boards_lapsing
-- Boards with held tasks whose lease ended by ?1.
SELECT DISTINCT b.id FROM (SELECT board FROM task INDEXED BY task_lapses
    WHERE state IN ('RUNNING', 'WAITING') AND until <= ?1 ORDER BY until LIMIT ?2) t JOIN board b ON b.no = t.board;

-- name: boards_waiting_over
-- Boards with tasks that wait for debates, questions or requests that are over.
SELECT DISTINCT b.id FROM task t INDEXED BY task_waiting JOIN board b ON b.no = t.board
WHERE t.state = 'WAITING' AND t.waits_for <> '[]'
  AND NOT EXISTS (SELECT 1 FROM json_each(t.waits_for) w
      WHERE EXISTS (SELECT 1 FROM debate d INDEXED BY debate_root
                    WHERE d.board = t.board AND d.root = w.value AND d.state = 'OPEN')
         OR EXISTS (SELECT 1 FROM request r WHERE r.board = t.board AND r.number = w.value AND r.live = 1)
         OR EXISTS (SELECT 1 FROM obligation o WHERE o.board = t.board AND o.item = w.value
                       AND o.state = 'outstanding'))
LIMIT ?1;

-- name: tasks_waiting_over
-- Tasks of a board that wait for debates, questions or requests that are over.
SELECT t.number FROM task t INDEXED BY task_waiting
WHERE t.board = ?1 AND t.state = 'WAITING' AND t.waits_for <> '[]'
  AND NOT EXISTS (SELECT 1 FROM json_each(t.waits_for) w
      WHERE EXISTS (SELECT 1 FROM debate d INDEXED BY debate_root
                    WHERE d.board = t.board AND d.root = w.value AND d.state = 'OPEN')
         OR EXISTS (SELECT 1 FROM request r WHERE r.board = t.board AND r.number = w.value AND r.live = 1)
         OR EXISTS (SELECT 1 FROM obligation o WHERE o.board = t.board AND o.item = w.value
                       AND o.state = 'outstanding'))
ORDER BY t.number LIMIT ?2;

-- name: lapse_next
-- When the next lease of a held task ends, on any board.
SELECT min(until) FROM task INDEXED BY task_lapses WHERE state IN ('RUNNING', 'WAITING');

-- name: lapse_next_on
-- When the next lease of a held task of a board ends.
SELECT min(until) FROM task INDEXED BY task_held WHERE board = ?1 AND state IN ('RUNNING', 'WAITING');

-- name: agents_last_seen
-- When agents (a JSON list of names) last did something on a board.
SELECT name, last_seen FROM agent WHERE board = ?1 AND name IN (SELECT value FROM json_each(?2));

-- name: results_before
-- The results of the tasks that a task comes after: number, title, item, the beginning of its text, and its status.
SELECT t.number, t.title, i.number, i.type, substr(i.text, 1, ?3), i.status FROM task_after a
CROSS JOIN task t ON t.board = a.board AND t.number = a.after_task
LEFT JOIN item i ON i.board = t.board AND i.number = t.result AND t.result > 0 AND VISIBLE(i.owner, ?4)
WHERE a.board = ?1 AND a.task = ?2 ORDER BY a.after_task;

-- name: item_types
-- The types of items by number (a JSON list).
SELECT number, type FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: stage_state
-- The kind and state of a stage.
SELECT kind, state FROM stage WHERE board = ?1 AND number = ?2;

-- name: reservation_add
-- A file or key is reserved.
INSERT INTO reservation(board, lease, pattern, shared, agent, task, length, until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET shared = excluded.shared;

-- name: reservations_count
-- How many reservations a board has.
SELECT count(*) FROM reservation WHERE board = ?1;

-- name: reservations_of_others
-- Reservations of other agents than ?2 that last beyond ?3, or whose holder made a call so lately that they do; since
-- ?4 calls are taken, and holders count as there then.
SELECT r.pattern, r.shared, r.agent, r.lease, r.task,
       max(max(r.until, ?4 + r.length), coalesce(CASE WHEN t.state = 'WAITING' THEN t.until ELSE a.last_seen + r.length END, 0)) AS ends
FROM reservation r LEFT JOIN agent a ON a.board = r.board AND a.name = r.agent
LEFT JOIN task t ON t.board = r.board AND t.number = r.task AND t.lease = r.lease
WHERE r.board = ?1 AND r.agent <> ?2 AND ends > ?3 ORDER BY r.lease, r.pattern;

-- name: reservations_drop
-- What a lease reserved is free.
DELETE FROM reservation WHERE board = ?1 AND lease = ?2;

-- name: reservations_renew
-- What a lease reserved stays so until ?3, and for ?4 after its holder's last call.
UPDATE reservation SET until = ?3, length = ?4 WHERE board = ?1 AND lease = ?2;

-- name: reservations_lapsing
-- Leases of reservations alone that ended by ?2, with when their holder was last there.
SELECT r.lease, r.agent, max(r.until), max(r.length), a.last_seen
FROM reservation r INDEXED BY reservation_lapses LEFT JOIN agent a ON a.board = r.board AND a.name = r.agent
WHERE r.until <= ?2 AND r.board = ?1 AND r.task = 0 GROUP BY r.lease, r.agent, a.last_seen ORDER BY r.lease LIMIT ?3;

-- name: boards_reserving_over
-- Boards with reservations alone that ended by ?1.
SELECT DISTINCT b.id FROM (SELECT board FROM reservation INDEXED BY reservation_lapses
    WHERE until <= ?1 AND task = 0 ORDER BY until LIMIT ?2) r JOIN board b ON b.no = r.board;

-- name: reservation_next
-- When the next reservation alone ends, on any board.
SELECT min(until) FROM reservation INDEXED BY reservation_lapses WHERE task = 0;

-- name: reservations_of_agent
-- Leases under which an agent has reservations alone.
SELECT DISTINCT lease FROM reservation WHERE board = ?1 AND agent = ?2 AND task = 0;

-- name: reservations_of_lease
-- Who has reservations under a lease, for which task, how long and until when.
SELECT agent, task, length, until FROM reservation WHERE board = ?1 AND lease = ?2 LIMIT 1;

-- name: reservations_under
-- What is reserved under a lease.
SELECT pattern, shared, agent, task, until FROM reservation WHERE board = ?1 AND lease = ?2 ORDER BY pattern;
