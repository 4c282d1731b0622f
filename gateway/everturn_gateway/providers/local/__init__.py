"""The small local model: its weights, its server, and the provider that asks it."""
