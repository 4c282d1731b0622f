"""`everturn import`: what other programs keep of agents, read, planned, and written as ours.

Nothing of theirs is changed. What has no counterpart here is named, and nothing is made up for it.

- `found`: what was found in the folder of another program
- `moving`: the command itself: what is found, planned, written, and told
- `reading`: reads single files of other programs
- `sources`: the folders of five programs, by what each of them documents or writes
- `writing`: writes what was found as files of ours
"""
