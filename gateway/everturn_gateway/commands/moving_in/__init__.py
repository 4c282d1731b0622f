"""`everturn import`: what other programs keep of agents, read, planned, and written as ours.

Nothing of theirs is changed. What has no counterpart here is named, and nothing is made up for it.
"""
