-- The answer that a critique got from the criticised side in a debate: the number of the item, 0 for none.
ALTER TABLE debate_critique ADD COLUMN answer INTEGER NOT NULL DEFAULT 0;

-- In open debates the newest reply of who owed the answer is it; where there was none, the answer is owed again.
UPDATE debate_critique SET answer = coalesce((
    SELECT max(e.source) FROM edge e
    JOIN item i ON i.board = e.board AND i.number = e.source AND i.owner = ''
    JOIN obligation o ON o.board = e.board AND o.item = e.target AND o.duty = 'respond'
        AND o.debate = debate_critique.debate AND o.agent = i.author AND o.state = 'acknowledged'
    WHERE e.board = debate_critique.board AND e.target = debate_critique.critique
      AND e.kind IN ('replies_to', 'critiques', 'supports', 'refutes')), 0)
WHERE (board, debate) IN (SELECT board, id FROM debate WHERE state = 'OPEN');
UPDATE obligation SET state = 'outstanding', reason = ''
WHERE duty = 'respond' AND state = 'acknowledged' AND EXISTS (
    SELECT 1 FROM debate_critique c
    JOIN debate d ON d.board = c.board AND d.id = c.debate AND d.state = 'OPEN'
    JOIN item i ON i.board = c.board AND i.number = c.critique AND i.status NOT IN ('WITHDRAWN', 'INVALIDATED')
    WHERE c.board = obligation.board AND c.debate = obligation.debate AND c.critique = obligation.item
      AND c.answer = 0);

-- Acknowledgements fall due when every critique has its answer; until then who owes them watches.
UPDATE obligation SET state = 'watching'
WHERE duty = 'acknowledge' AND state = 'outstanding' AND EXISTS (
    SELECT 1 FROM debate d
    JOIN debate_critique c ON c.board = d.board AND c.debate = d.id AND c.answer = 0
    JOIN item i ON i.board = c.board AND i.number = c.critique AND i.status NOT IN ('WITHDRAWN', 'INVALIDATED')
    WHERE d.board = obligation.board AND d.root = obligation.item AND d.state = 'OPEN'
      AND obligation.debate IN (0, d.id));
