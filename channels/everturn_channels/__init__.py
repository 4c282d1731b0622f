"""Where people write from: adapters between a platform and the core."""
