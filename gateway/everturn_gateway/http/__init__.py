"""The HTTP surface: routes over the entry point, access, limits, and the server that listens."""
