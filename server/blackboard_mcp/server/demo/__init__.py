"""The demo: a story and recorded sessions of agents, played through real MCP clients and a real server."""
