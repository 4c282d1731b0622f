"""The OpenAI-compatible requests and answers."""
