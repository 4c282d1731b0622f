"""Tools for notes that outlast a conversation."""
