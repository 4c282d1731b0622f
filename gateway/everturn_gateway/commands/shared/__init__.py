"""What commands share: options, settings, errors, and how they print and ask."""
