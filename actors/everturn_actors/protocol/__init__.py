"""What can be asked of a session, and what is told of it: commands, the mailbox, the feed.

Both sides know this: the actor, and whoever sends to it or follows it.
"""
