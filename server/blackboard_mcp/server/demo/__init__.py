"""Recorded sessions of agents, and their replay through real MCP clients and a real server."""
