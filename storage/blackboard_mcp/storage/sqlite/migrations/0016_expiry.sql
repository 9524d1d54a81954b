-- What expires at the same instant is found page by page, without sorting it all again for each page.
DROP INDEX item_expiry;
CREATE INDEX item_expiry ON item(expires_at, board, number) WHERE expires_at IS NOT NULL AND zone = 'working';
