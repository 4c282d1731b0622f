"""Text from outside: cleaned, fenced, and what of it a request shows."""
