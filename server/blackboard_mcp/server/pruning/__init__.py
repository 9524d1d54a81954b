"""What leaves working memory: the pruner, its steps, the policies that order them, and summaries."""
