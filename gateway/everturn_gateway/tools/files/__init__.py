"""Tools for the files of an agent's workspace."""
