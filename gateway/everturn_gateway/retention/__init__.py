"""What goes of what is kept: by age and size as the owner set it, and what a person said."""
