"""The routes, by subject. Each module builds one router around an open gateway.

- `admin`: for who runs the gateway
- `agent_files`: the files of agents, for administrators: tried before they stand, read, replaced
- `agents`: the agents that people can talk to, and what their turns changed in their workspaces
- `channels`: the chat channels: their status, where their platforms deliver, and who is let in
- `context`: the context of a session: what stands in it, why a request looked as it did, a summary
  now
- `health`: is it alive, does it take messages, which version is it
- `keeping`: what stays with the model of a session: pinned messages, and notes about whom it talks
  with
- `maintenance`: cleaning by `sessions.keep`, and erasing what a person said
- `media`: what a session keeps beside its log: files that came with messages, and large results
- `metrics`: the metrics of the gateway, for whoever scrapes them
- `openai`: the same agents for clients of OpenAI's API: `model` is the agent
- `responses`: the Responses API of OpenAI: a response is a turn, and what follows it is its session
- `schedules`: scheduled jobs: make, look, pause, run, call off
- `session_models`: which model answers in a session
- `sessions`: sessions: begin, list, look, reset, delete
- `shares`: who else gets to see a session: give it, take it back
- `turns`: messages and what becomes of them: send, stream, follow, read, cancel
- `usage`: what agents used of models, and what that cost
"""
