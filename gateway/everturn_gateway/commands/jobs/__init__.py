"""`everturn schedule`."""
