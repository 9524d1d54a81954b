"""Diagnosis of an installation: checks that change nothing, and repairs on request."""
