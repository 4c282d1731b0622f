"""Command lines: which commands they run, as far as that can be known before they do."""
