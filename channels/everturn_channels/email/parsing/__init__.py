"""What stands in a mail that somebody sent. Pure: nothing here asks a server.

- `authenticity`: whether a mail is from whom it says
- `automatic`: which mail was written by a machine, and is answered by nobody
- `bounces`: what a mail server says of a mail that could not be delivered
- `content`: what a mail holds: the text that its sender wrote now, and its files
- `fields`: the header fields of a mail, as text, whatever their sender made of them
- `html_text`: the HTML of a mail as Markdown, without what its reader would not see
- `quotes`: what of a mail's text its sender wrote now, and what is quoted from before
- `structure`: the parts of a mail, read in good time whatever its sender made of it
"""
