"""`everturn setup`: from nothing to an answer of a real model."""
