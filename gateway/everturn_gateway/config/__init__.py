"""`everturn.yaml`: what it may say, read and checked."""
