"""The log of a session: lines, files, archives, and where they lie."""
