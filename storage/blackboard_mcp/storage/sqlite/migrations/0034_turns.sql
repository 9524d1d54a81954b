-- The items of an author in the order in which they leave.
CREATE INDEX item_turn ON item(board, author, importance, seq, number) WHERE zone = 'working';

-- When an item was last cited: by the newest of those that cite it in each way and that all who see it see.
-- Most items are cited by nothing, which one look tells.
DROP VIEW cited;
CREATE VIEW cited(board, number, at) AS
SELECT i.board, i.number,
       CASE WHEN EXISTS (SELECT 1 FROM edge e INDEXED BY edge_target WHERE e.board = i.board AND e.target = i.number)
       THEN (
    SELECT max((
        SELECT s.created_at FROM edge e INDEXED BY edge_target
        CROSS JOIN item s ON s.board = e.board AND s.number = e.source
        WHERE e.board = i.board AND e.target = i.number AND e.kind = k.value AND s.owner IN ('', i.owner)
        ORDER BY e.source DESC LIMIT 1))
    FROM json_each('["depends_on","derived_from","replies_to","supports","critiques","refutes"]') k) END
FROM item i;
