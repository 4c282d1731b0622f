"""Is everything in order, and what to do where it is not: for a workspace, served or not.

`examination.examine` looks at a `Subject`. The command makes one of a configuration, and asks a
gateway that runs over HTTP; the gateway makes one of itself.

- `agents`: what is to be said of agents, as their files stand
- `channel_words`: the status of a channel, in words for people
- `channels`: the status of channels, and what is wrong with how they are set up
- `examination`: looks at everything of a workspace, one thing after the other
- `findings`: what a look at a workspace finds
- `logins`: which logins at MCP servers are over
- `own`: a gateway that looks at itself, for who cannot reach its machine
- `plugins`: what is to be said of plug-ins
- `sandbox`: what is to be said of the sandbox in which the commands of an agent run
- `schedules`: what is wrong with scheduled jobs
- `subject`: what is examined, and whom it is asked of
- `tokens`: what should be looked at in the tokens of principals
- `voice`: who hears what people say and speaks to them, and whether that can work
- `workspace`: whether a workspace is private, and has room
"""
