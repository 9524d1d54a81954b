"""Tasks of the agenda: planning, taking and settling them, and the ends of leases."""
