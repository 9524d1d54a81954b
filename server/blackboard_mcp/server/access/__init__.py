"""Who may change what, beside roles: the access policies of the operator's, and the judge who asks them."""
