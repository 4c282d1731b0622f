"""Patterns, and what they say of a call. Pure."""
