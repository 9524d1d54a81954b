"""Items: posting, entries and their versions, edges, statuses, claims, questions."""
