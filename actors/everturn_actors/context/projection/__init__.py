"""The history as messages that a request could show, and what was reduced of them. Pure."""
