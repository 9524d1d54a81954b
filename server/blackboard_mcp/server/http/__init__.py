"""HTTP beside MCP: events, intake, metrics, and the identity that a request proves."""
