"""Who may see and change what: visibility, permits, members, access tokens."""
