"""What can be asked of a session, and what is told of it: commands, the mailbox, the feed.

Both sides know this: the actor, and whoever sends to it or follows it.

- `actors`: whoever finds the actor of a session: in this process, or in another one
- `background`: the tasks that run beside the command loop of one actor
- `commands`: what an actor can be asked to do: data, each of which knows the type of its answer
- `feed`: what the followers of a session read: its events as they become durable, and the running
  reply
- `followers`: what followers of a session read, and how far each of them is
- `mailbox`: the bounded inbox of an actor, and the slot in which a caller waits for its answer
- `placing`: finds out which sessions are whose, where their ids alone do not say it
- `subscription`: reads what happens in a session, from where a follower stands to its end
"""
