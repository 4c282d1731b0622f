"""`policy.yaml`: read, checked, and added to."""
