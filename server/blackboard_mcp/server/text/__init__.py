"""Text for readers who pay by the token: lines, snippets, pressure, and the counting of tokens."""
