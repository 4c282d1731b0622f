"""Who asks, what is open to them, and which sessions they see."""
