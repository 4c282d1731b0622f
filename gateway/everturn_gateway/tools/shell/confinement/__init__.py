"""What a command sees, may do and may use up: the sandbox, or another user."""
