"""What the providers share: connections, streams, and the pieces of requests and replies."""
