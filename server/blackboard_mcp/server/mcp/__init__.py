"""The adapter over the MCP SDK."""
