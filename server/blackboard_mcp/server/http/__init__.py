"""What the server answers over HTTP beside MCP: events, intake, metrics, and who a request is from."""
