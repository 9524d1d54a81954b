"""Short texts for readers who pay by the token: lines, snippets, pressure, and token counts."""
