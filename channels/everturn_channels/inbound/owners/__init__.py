"""What owners do from a private chat, and the questions that are brought to them."""
