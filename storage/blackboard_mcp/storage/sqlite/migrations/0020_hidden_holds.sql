-- What is hidden holds nothing for others any more: the index is filled anew.
DELETE FROM held;
