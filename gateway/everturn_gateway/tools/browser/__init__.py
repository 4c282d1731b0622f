"""A browser of the agent's: a local Chromium, whose every connection goes to a checked address."""
