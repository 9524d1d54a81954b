-- Questions that wait for somebody's answer: they stay.
CREATE VIEW asked(board, number) AS
SELECT DISTINCT board, item FROM obligation WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;
CREATE INDEX obligation_asked ON obligation(since) WHERE state = 'outstanding' AND duty = 'respond' AND debate = 0;

-- What leaves after everything else of its owner: open problems, active plans, standing decisions, questions that
-- nobody answered, and what an active item depends on. What only some can see decides nothing for others.
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
          AND x.zone = 'working' AND x.status = 'ACTIVE'));

-- What leaves after something else that is there (`source`): what a live item of importance rests on, and what
-- refutes a claim that fell.
CREATE VIEW bearing(board, number, source) AS
SELECT e.board, e.target, e.source FROM edge e
CROSS JOIN item x ON x.board = e.board AND x.number = e.source
CROSS JOIN item i ON i.board = e.board AND i.number = e.target
WHERE e.kind IN ('derived_from', 'depends_on') AND x.zone = 'working' AND x.status IN ('ACTIVE', 'DEBATED')
  AND x.importance >= 3 AND x.superseded = 0 AND x.type <> 'SUMMARY' AND x.owner IN ('', i.owner)
UNION ALL
SELECT e.board, e.source, e.target FROM edge e
CROSS JOIN item x ON x.board = e.board AND x.number = e.target
CROSS JOIN item i ON i.board = e.board AND i.number = e.source
WHERE e.kind = 'refutes' AND x.zone = 'working' AND x.status = 'INVALIDATED' AND x.owner IN ('', i.owner);

-- When an item was last cited: by the newest of those that cite it in each way and that all who see it see.
CREATE VIEW cited(board, number, at) AS
SELECT i.board, i.number, (
    SELECT max((
        SELECT s.created_at FROM edge e INDEXED BY edge_target
        CROSS JOIN item s ON s.board = e.board AND s.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = k.value AND s.owner IN ('', i.owner)
        ORDER BY e.source DESC LIMIT 1))
    FROM json_each('["depends_on","derived_from","replies_to","supports","critiques","refutes"]') k)
FROM item i;
