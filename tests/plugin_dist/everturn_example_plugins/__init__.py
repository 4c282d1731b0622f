"""One plug-in of each kind, in a distribution of its own."""
