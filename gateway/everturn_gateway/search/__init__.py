"""What was said, found again: the index over the logs, and what may be shown of its matches.

One search stands behind `recall_context`, `/search`, `everturn sessions search`, the console and
HTTP. The index is a cache beside the sessions; every match is read from the log before it is shown.
"""
