-- What importance alone keeps from leaving: it counts as held. Constraints and hot issues are protected as they are.
CREATE VIEW exempt(board, number) AS
SELECT board, number FROM item
WHERE zone = 'working' AND importance = 5 AND status = 'ACTIVE' AND superseded = 0
  AND type NOT IN ('CONSTRAINT', 'HOT_ISSUE');
