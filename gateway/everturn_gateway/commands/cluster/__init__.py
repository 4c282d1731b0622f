"""Gateways that share a store, as their operator sees them.

- `nodes`: `everturn nodes`: who lives, and who of them does what
- `seats`: `everturn seat`: what one node does for all, and which one that should be
"""
