-- Findings that fell and left working memory, newest last: dead ends that contexts go on telling.
CREATE INDEX item_fallen ON item(board, number)
    WHERE zone = 'archive' AND deleted = 0 AND status IN ('WITHDRAWN', 'INVALIDATED');
