"""One turn: the loop of model calls and tool calls, approvals, and summaries beside it.

What belongs here acts for a turn and knows nothing of the actor that started it.
"""
