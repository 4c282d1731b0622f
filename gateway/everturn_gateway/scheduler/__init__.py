"""Scheduled jobs: what they are, when they are due, and that each run runs once."""
