"""When a job is due, and what its runs were. Pure."""
