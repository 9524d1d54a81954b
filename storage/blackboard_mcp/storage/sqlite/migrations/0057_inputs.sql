-- The result of a finished task that an open task comes directly after is open work as well, or what took its place.
DROP VIEW open_work;
CREATE VIEW open_work(board, number) AS
SELECT i.board, i.number FROM item i
WHERE i.zone = 'working' AND i.status = 'ACTIVE' AND i.superseded = 0 AND (
    i.type IN ('PROBLEM', 'PLAN', 'DECISION')
    OR (i.type = 'QUESTION' AND NOT EXISTS (
        SELECT 1 FROM edge e CROSS JOIN item a ON a.board = e.board AND a.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = 'replies_to' AND a.owner IN ('', i.owner)
          AND (a.type = 'ANSWER' OR (a.type NOT IN ('QUESTION', 'CRITIQUE') AND a.author <> i.author))
          AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
    OR EXISTS (
        SELECT 1 FROM edge e CROSS JOIN item x ON x.board = e.board AND x.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = 'depends_on' AND x.owner IN ('', i.owner)
          AND x.zone = 'working' AND x.status = 'ACTIVE')
    OR EXISTS (
        WITH RECURSIVE former(number, step) AS (
            SELECT i.number, 0
            UNION
            SELECT o.number, f.step + 1 FROM former f
            CROSS JOIN edge e ON e.board = i.board AND e.source = f.number AND e.kind = 'supersedes'
            CROSS JOIN item o ON o.board = e.board AND o.number = e.target AND o.superseded = 1
            CROSS JOIN item x ON x.board = e.board AND x.number = e.source AND x.owner IN ('', o.owner)
            WHERE f.step < 8 AND (x.author = o.author OR EXISTS (
                SELECT 1 FROM agreed_claim c WHERE c.board = e.board AND c.target = e.target AND c.kind = e.kind
                  AND c.source = e.source))
        )
        SELECT 1 FROM former f CROSS JOIN task t INDEXED BY task_result ON t.board = i.board AND t.result = f.number AND t.result > 0
        CROSS JOIN task_after a ON a.board = t.board AND a.after_task = t.number
        CROSS JOIN task w ON w.board = a.board AND w.number = a.task
        WHERE t.state = 'COMPLETED' AND w.state NOT IN ('COMPLETED', 'CANCELLED')));
