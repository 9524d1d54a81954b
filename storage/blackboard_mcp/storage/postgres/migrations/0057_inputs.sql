-- The result of a finished task that an open task comes directly after is open work as well, or what took its place.
CREATE OR REPLACE VIEW open_work(board, number) AS
SELECT i.board, i.number FROM item i
WHERE i.zone = 'working' AND i.status = 'ACTIVE' AND i.superseded = 0 AND (
    i.type IN ('PROBLEM', 'PLAN', 'DECISION')
    OR (i.type = 'QUESTION' AND NOT EXISTS (
        SELECT 1 FROM edge e JOIN item a ON a.board = e.board AND a.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = 'replies_to' AND a.owner IN ('', i.owner)
          AND (a.type = 'ANSWER' OR (a.type NOT IN ('QUESTION', 'CRITIQUE') AND a.author <> i.author))
          AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
    OR EXISTS (
        SELECT 1 FROM edge e JOIN item x ON x.board = e.board AND x.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = 'depends_on' AND x.owner IN ('', i.owner)
          AND x.zone = 'working' AND x.status = 'ACTIVE')
    OR EXISTS (
        WITH RECURSIVE former(number, step) AS (
            SELECT i.number, 0
            UNION
            SELECT o.number, f.step + 1 FROM former f
            JOIN edge e ON e.board = i.board AND e.source = f.number AND e.kind = 'supersedes'
            JOIN item o ON o.board = e.board AND o.number = e.target AND o.superseded = 1
            JOIN item x ON x.board = e.board AND x.number = e.source AND x.owner IN ('', o.owner)
            WHERE f.step < 8 AND (x.author = o.author OR EXISTS (
                SELECT 1 FROM agreed_claim c WHERE c.board = e.board AND c.target = e.target AND c.kind = e.kind
                  AND c.source = e.source))
        )
        SELECT 1 FROM former f JOIN task t ON t.board = i.board AND t.result = f.number AND t.result > 0
        JOIN task_after a ON a.board = t.board AND a.after_task = t.number
        JOIN task w ON w.board = a.board AND w.number = a.task
        WHERE t.state = 'COMPLETED' AND w.state NOT IN ('COMPLETED', 'CANCELLED')));
