"""The Responses API: what it takes, its answer as a whole, and as a stream of events."""
