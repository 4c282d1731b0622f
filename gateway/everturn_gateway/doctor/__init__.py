"""Is everything in order, and what to do where it is not: for a workspace, served or not.

`examination.examine` looks at a `Subject`. The command makes one of a configuration, and asks a
gateway that runs over HTTP; the gateway makes one of itself.
"""
