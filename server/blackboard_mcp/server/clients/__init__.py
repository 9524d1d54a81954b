"""Configuration files of MCP clients: our entry is added and removed, and nothing else in them changes."""
