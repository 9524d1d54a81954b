"""Access inside a transaction: visibility, permits, members, access tokens."""
