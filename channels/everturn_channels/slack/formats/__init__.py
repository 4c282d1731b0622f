"""Slack's own formats: what people write as text for a model, and Markdown as Slack shows it. Pure.

- `blocks`: Slack's blocks, as text in its own mark-up
- `content`: what a message holds: its words, what it passes on, and the rest in words for a model
- `emojis`: Slack's names of emojis: it takes no emoji for a reaction, only what it calls one
- `markup`: Markdown as Slack shows it: blocks for people, and a text beside them for what shows
  none
- `text`: what people write in Slack, as text that a model reads
"""
