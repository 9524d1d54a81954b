"""The relay: a stdio server that only forwards messages to a server over HTTP."""
