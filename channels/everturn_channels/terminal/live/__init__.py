"""A chat at a terminal: one prompt that stays, and the session above it.

- `calls`: calls of tools as lines that fold
- `chat`: the chat itself: begins, and does what keys say
- `completion`: what may stand where a person types
- `display`: draws a view around the prompt
- `following`: follows one session after the other
- `images`: pictures in terminals that show them
- `markdown`: Markdown as it streams
- `obeying`: does what a person types
- `prompt`: the one prompt
- `questions`: calls that wait for the person, answered by a key
- `status_line`: the line below the prompt
- `turns`: whether something is under way
- `view`: what stands for good, and what still changes
"""
