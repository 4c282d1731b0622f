"""How large a request is, and how much of the window is left for it. Pure."""
