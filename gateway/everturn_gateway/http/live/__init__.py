"""What goes on in all sessions: their list by activity, what waits for a person, one stream.

- `exports`: a session as a file, as it was or for people to read
- `log`: pages of a session's log, from either end
- `markdown`: a session as a file for people: its events as Markdown, one after the other
- `openai_export`: a session as one line of JSON with the messages of OpenAI's chat format
- `overviews`: the list of sessions by their last activity, with filters and a search in what rows
  say
- `requests`: the requests that a session sent to its model, as its log tells of them, newest first
- `routes`: what goes on in all sessions: one stream, what waits for a person, and pages of a log
- `rows`: rows of sessions as JSON, written once for all who look on
- `search`: a search through what was said in all sessions that a caller may see
- `states`: what stands beside sessions in the one stream: approvals, channels and jobs, as they are
  now
- `stream`: one stream for everything that a page shows: rows of sessions, and the sessions it looks
  into
- `used`: what sessions, jobs and principals used, as far back as somebody asks
"""
