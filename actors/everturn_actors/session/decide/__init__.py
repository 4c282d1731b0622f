"""What an actor does about commands: pure functions from a state and commands to a decision.

One module for each subject; `decider` puts them together. What they say is carried out by the
actor: it makes the events durable, answers, and starts the effects.
"""
