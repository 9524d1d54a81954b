"""The relay: a stdio server that is only a wire to a server over HTTP."""
