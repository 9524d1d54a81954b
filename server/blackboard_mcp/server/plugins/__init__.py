"""Classes that the operator names by import path: loaded once, checked, and run where they can do no harm."""
