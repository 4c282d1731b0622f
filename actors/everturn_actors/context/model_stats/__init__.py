"""What answers and refusals of a provider teach of its model. Pure."""
