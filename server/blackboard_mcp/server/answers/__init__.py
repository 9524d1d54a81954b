"""Results in words, and as models for programs."""
