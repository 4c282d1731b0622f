"""`everturn serve`."""
