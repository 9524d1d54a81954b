"""What may be wrong with an installation, found without changing anything."""
