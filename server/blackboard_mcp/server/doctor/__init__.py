"""Diagnosis of an installation, without changing anything."""
