"""The tools of agents, and what stands before them.

Those that come with Everturn are plug-ins: each stands in a folder of its own, described by the
value in its `plugin.py`.
"""
