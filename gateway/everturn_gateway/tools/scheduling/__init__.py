"""`schedule`: messages and tasks for later, in the conversation that asked for them."""
