"""Context policies: what a request leaves out or shortens, and in which order. Pure."""
