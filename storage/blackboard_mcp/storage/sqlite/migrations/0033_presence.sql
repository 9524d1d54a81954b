-- Who takes part in a debate: they wait for one another.
CREATE VIEW party(board, debate, agent) AS
SELECT board, debate, agent FROM obligation WHERE debate > 0
UNION ALL
SELECT board, debate, agent FROM decision
UNION ALL
SELECT d.board, d.id, i.author FROM debate d JOIN item i ON i.board = d.board AND i.number = d.root;

CREATE INDEX obligation_awaited ON obligation(board, since) WHERE state = 'outstanding' AND debate > 0;
CREATE INDEX agent_there ON agent(last_seen);
