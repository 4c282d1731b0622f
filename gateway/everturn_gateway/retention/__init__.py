"""What goes of what is kept: by age and size as the owner set it, and what a person said.

- `cleaning`: looks for what may go, and lets it go: by hand, and once a day in a gateway that
  serves
- `erasing`: erases what a person said, in all sessions, and keeps a record that it was done
- `planning`: which sessions go, and which parts of others
- `scrubbing`: what becomes of a session in which a person's words are erased
"""
