"""Classes that the operator names by import path: loaded once, checked, and run with bounds."""
