"""Results as text for agents, and as models for programs."""
