"""`state.yaml`: a session's state as people read it, written and read back."""
