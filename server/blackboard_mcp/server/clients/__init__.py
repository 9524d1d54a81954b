"""Configuration files of MCP clients: an entry of ours goes in, and out again; nothing else in them changes."""
