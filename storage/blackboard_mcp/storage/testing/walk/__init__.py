"""Random walks over a board store: the state machine, its rules, the plain model and the invariants."""
