"""A conversation in a terminal.

`client` is what a terminal needs of a gateway, `conversation` keeps to one conversation behind it,
`slash` and `reply` are pure, `screen` writes, `chat` and `attach` are the two things a person sees.
"""
