"""Reading: items, queries, the snapshot of a view, explanations, the index's feed."""
