"""Requests of the past: why they looked as they did, and what two of them have otherwise. Pure."""
