-- Stages and milestones, and what conditions look at. Values are bound by position: ?1, ?2, …

-- name: stage_last
-- The highest number of a stage on a board.
SELECT coalesce(max(number), 0) FROM stage WHERE board = ?1;

-- name: stages_open
-- How many stages and milestones of a board are not over.
SELECT count(*) FROM stage INDEXED BY stage_title WHERE board = ?1 AND state NOT IN ('COMPLETED', 'TERMINATED');

-- name: stage_titled
-- The stage or milestone with a title that is not over.
SELECT number FROM stage INDEXED BY stage_title
WHERE board = ?1 AND title = ?2 AND state NOT IN ('COMPLETED', 'TERMINATED');

-- name: stage_add
-- A new stage.
INSERT INTO stage(board, number, parent, title, kind, state, entry_if, exit_if, required_if, needed, entry_held, manual,
                  autocomplete, created_by, moved_at, why)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: stage_put
-- A stage as it is now.
UPDATE stage SET state = ?6, needed = ?10, entry_held = ?11, moved_at = ?15, why = ?16 WHERE board = ?1 AND number = ?2;

-- name: stages_get
-- Stages by number (a JSON list).
SELECT board, number, parent, title, kind, state, entry_if, exit_if, required_if, needed, entry_held, manual,
       autocomplete, created_by, moved_at, why
FROM stage WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) ORDER BY number;

-- name: stages_under
-- The stages in a stage.
SELECT board, number, parent, title, kind, state, entry_if, exit_if, required_if, needed, entry_held, manual,
       autocomplete, created_by, moved_at, why
FROM stage INDEXED BY stage_under WHERE board = ?1 AND parent = ?2 ORDER BY number;

-- name: stages_listed
-- The numbers of all stages that are not over, and of the newest ?2 that are.
SELECT number FROM (SELECT number FROM stage INDEXED BY stage_title
                    WHERE board = ?1 AND state NOT IN ('COMPLETED', 'TERMINATED'))
UNION
SELECT number FROM (SELECT number FROM stage WHERE board = ?1 AND state IN ('COMPLETED', 'TERMINATED')
                    ORDER BY number DESC LIMIT ?2);

-- name: stages_near
-- Stages (a JSON list of numbers), what is in them, and what they are in.
SELECT number FROM stage WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))
UNION SELECT parent FROM stage WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND parent > 0
UNION SELECT number FROM stage INDEXED BY stage_under
      WHERE board = ?1 AND parent IN (SELECT value FROM json_each(?2));

-- name: stages_of_tasks
-- The stages of tasks (a JSON list of numbers).
SELECT DISTINCT stage FROM task WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND stage > 0;

-- name: tasks_of_stages
-- Tasks in stages (a JSON list of numbers) that are not over: number, stage, state, and whether their stage needs them.
SELECT t.number, t.stage, t.state, t.required FROM json_each(?2) s
CROSS JOIN task t INDEXED BY task_stage ON t.board = ?1 AND t.stage = s.value
WHERE t.stage > 0 AND t.state NOT IN ('COMPLETED', 'CANCELLED') ORDER BY t.number LIMIT ?3;

-- name: stage_tasks
-- What is in a stage: whether it has tasks, needs some, has some that are not over, needs some of those, one is
-- FAULTED that it needs, and one is under way.
SELECT count(*), coalesce(max(required), 0), coalesce(max(state NOT IN ('COMPLETED', 'CANCELLED', 'FAULTED')), 0),
       coalesce(max(required AND state NOT IN ('COMPLETED', 'CANCELLED')), 0),
       coalesce(max(required AND state = 'FAULTED'), 0),
       coalesce(max(state IN ('RUNNING', 'WAITING', 'REVIEW')), 0)
FROM task INDEXED BY task_stage WHERE board = ?1 AND stage = ?2 AND stage > 0;

-- name: workers_of_stage
-- Agents whom free tasks of a stage are for.
SELECT DISTINCT worker FROM task INDEXED BY task_stage
WHERE board = ?1 AND stage = ?2 AND stage > 0 AND state = 'PENDING' AND blockers = 0 AND worker <> '' LIMIT ?3;

-- name: stage_depth
-- How many stages a stage is in, itself included.
WITH RECURSIVE up(n, depth) AS (
    SELECT ?2, 1
    UNION ALL SELECT s.parent, up.depth + 1 FROM up JOIN stage s ON s.board = ?1 AND s.number = up.n
    WHERE s.parent > 0 AND up.depth < 100
)
SELECT max(depth) FROM up;

-- name: tasks_triggered
-- How many tasks of a board wait for their trigger.
SELECT count(DISTINCT number) FROM condition_term WHERE board = ?1 AND kind = 'task';

-- name: term_add
-- A condition of a stage or task mentions something.
INSERT INTO condition_term(board, term, kind, number) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: terms_drop
-- The conditions of a stage or task are of no use any more.
DELETE FROM condition_term WHERE board = ?1 AND kind = ?2 AND number = ?3;

-- name: terms_touched
-- Stages and tasks whose conditions mention one of ?2 (a JSON list), or anything that begins with one of ?3 and a colon.
SELECT c.kind, c.number FROM json_each(?2) t CROSS JOIN condition_term c ON c.board = ?1 AND c.term = t.value
UNION
SELECT c.kind, c.number FROM json_each(?3) p
CROSS JOIN condition_term c ON c.board = ?1 AND c.term >= p.value || ':' AND c.term < p.value || ';';

-- name: due_add
-- Look at a stage or task again in the next change.
INSERT INTO condition_due(board, kind, number) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: due_take
-- What is to be looked at again.
DELETE FROM condition_due WHERE board = ?1 RETURNING kind, number;

-- name: boards_due
-- Boards with something to be looked at again.
SELECT b.id FROM (SELECT DISTINCT board FROM condition_due LIMIT ?1) d JOIN board b ON b.no = d.board;

-- name: missing_tasks
-- Those of the numbers (a JSON list) that are no task of a board.
SELECT CAST(value AS INTEGER) FROM json_each(?2) w WHERE NOT EXISTS (SELECT number FROM task WHERE board = ?1 AND number = w.value);

-- name: missing_stages
-- Those of the numbers (a JSON list) that are no stage of a board.
SELECT CAST(value AS INTEGER) FROM json_each(?2) w WHERE NOT EXISTS (SELECT number FROM stage WHERE board = ?1 AND number = w.value);

-- name: task_completed
-- Whether a task is done.
SELECT EXISTS (SELECT 1 FROM task WHERE board = ?1 AND number = ?2 AND state = 'COMPLETED');

-- name: stage_completed
-- Whether a stage or milestone is COMPLETED.
SELECT EXISTS (SELECT 1 FROM stage WHERE board = ?1 AND number = ?2 AND state = 'COMPLETED');

-- name: milestone_reached
-- Whether a milestone with a title was reached.
SELECT EXISTS (SELECT 1 FROM stage WHERE board = ?1 AND title = ?2 AND kind = 'milestone' AND state = 'COMPLETED');

-- name: key_stands
-- Whether everybody sees an entry with a key that was neither deleted nor has expired.
SELECT EXISTS (SELECT 1 FROM item INDEXED BY item_key WHERE board = ?1 AND key IS NOT NULL AND PUBLIC(owner) AND key = ?2
               AND deleted = 0 AND (expires_at IS NULL OR expires_at > ?3));

-- name: debates_any
-- Whether there is an open debate on an item that everybody sees.
SELECT EXISTS (SELECT 1 FROM debate d INDEXED BY debate_open CROSS JOIN item i ON i.board = d.board AND i.number = d.root
               WHERE d.board = ?1 AND d.state = 'OPEN' AND PUBLIC(i.owner));

-- name: counted_by_kind
-- How many items that everybody sees have one of the types and statuses (JSON lists).
SELECT coalesce(sum(items), 0) FROM figure
WHERE board = ?1 AND PUBLIC(owner) AND type IN (SELECT value FROM json_each(?2))
  AND status IN (SELECT value FROM json_each(?3));

-- name: counted_one_by_one
-- The same with a tag or an author, up to ?6: all of working memory, and of the archive the newest ?7.
SELECT count(*) FROM (
    SELECT 1 FROM json_each(?2) t CROSS JOIN item i INDEXED BY item_type ON i.board = ?1 AND i.type = t.value
    WHERE i.zone = 'working' AND PUBLIC(i.owner) AND i.status IN (SELECT value FROM json_each(?3))
      AND (?5 = '' OR i.author = ?5)
      AND (?4 = '' OR EXISTS (SELECT 1 FROM json_each(i.tags) g WHERE g.value = ?4))
    UNION ALL
    SELECT 1 FROM (SELECT board, number FROM item INDEXED BY item_archived
                   WHERE board = ?1 AND zone = 'archive' AND deleted = 0 ORDER BY number DESC LIMIT ?7) a
    CROSS JOIN item i ON i.board = a.board AND i.number = a.number
    WHERE i.type IN (SELECT value FROM json_each(?2)) AND PUBLIC(i.owner)
      AND i.status IN (SELECT value FROM json_each(?3)) AND (?5 = '' OR i.author = ?5)
      AND (?4 = '' OR EXISTS (SELECT 1 FROM json_each(i.tags) g WHERE g.value = ?4))
    LIMIT ?6);
