"""What goes on in all sessions: their list by activity, what waits for a person, one stream."""
