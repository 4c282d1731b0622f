"""One conversation: its actor, who finds and starts it, and a message's way to its answer.

What belongs here runs while a session is active, or looks after sessions that are not.

- `active`: the sessions of a registry whose actors live, and room for one more
- `actor`: the actor of one session: the only writer of its state
- `approvals`: who may still say what about a call that waits for a person
- `effects`: what follows from a decision besides its events: started here, after they are durable
- `maintenance`: what a service does by itself: let open turns go on, end sessions that nobody uses
- `message_events`: which of a session's events tell of one message, and whether its turn has read
  from outside
- `quarantine`: sessions whose actor failed: when their next one starts, and from when on there is
  none
- `refusals`: what a turn was refused, for whoever gets its result and was not there
- `registry`: finds the actor of a session, starts and passivates it, and deals with its failure
- `runtime`: what all actors of a service share, and what they ask of it
- `snapshots`: what the store holds of one session: loaded, and saved again where a snapshot is due
- `submission`: a message that is durable, and the way to its answer
- `turn_result`: how a turn ended, made of the events that tell of one message
- `turn_runner`: the task that works on the open turn of one session: started, stopped, closed
- `decide/`: what an actor does about commands: pure functions from a state and commands to a
  decision
"""
