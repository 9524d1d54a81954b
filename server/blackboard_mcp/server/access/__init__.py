"""Access: roles and rights, the door, credentials, and the operator's access policies."""
