"""What each kind of event changes in a session; `state.apply` chooses between them. Pure."""
