"""`everturn context`."""
