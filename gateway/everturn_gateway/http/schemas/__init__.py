"""The bodies of requests and answers, as pydantic models.

- `agents`: agents, and what operators ask of them: bodies of answers
- `base`: what all bodies share: no unknown fields, instants, ids, and how one is answered
- `channels`: the bodies of answers about channels, and about who is let in there
- `checkpoints`: turns that changed files, and what was taken back of them: bodies of answers
- `console`: what the console's page asks for itself
- `context`: what requests and answers about a session's context hold; the shape is that of
  `reports`
- `errors`: errors, as they are described in OpenAPI
- `health`: how the gateway is: bodies of answers
- `history`: messages as people know them, from the events of a session's log
- `keeping`: what stays with the model of a session, as JSON
- `log`: the bodies of what the gateway logged
- `maintenance`: what is told over HTTP of what is cleaned and erased
- `messages`: messages and turns: what requests and answers hold of them
- `models`: what is told over HTTP of the models that a gateway has used
- `schedules`: what a request says of a scheduled job
- `session_models`: which model answers in a session, as JSON
- `sessions`: sessions: what requests and answers hold of them
- `usage`: the body of the report on usage
"""
