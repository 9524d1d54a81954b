"""Random walks over a board store: state machines, their rules, the plain model and the invariants."""
