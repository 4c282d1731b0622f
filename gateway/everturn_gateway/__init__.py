"""The program: configuration, agents, models, HTTP and the command line around the core.

- `clock`: the machine's clock; the only place that asks for it
- `errors`: errors of the gateway
- `folders`: folders whose names last through a loss of power
- `gc_tuning`: what the cyclic garbage collector of a long-running process does not look at
- `heap`: gives memory back to the system when conversations have left it
- `late_loading`: loads large libraries and what stands on them when they are first needed, and in
  no other place
- `logs`: logging to stderr, and the one register of secrets that nothing printed may contain
- `model_choices`: which models an agent could have: those that agents name, and those that its
  provider lists
- `model_statistics`: what was learnt about models, kept as `models.json`
- `private_environ`: the environment of the gateway's process, out of reach of the programs that it
  starts
- `private_hosts`: how an owner writes which hosts and networks beyond the public Internet may be
  reached
- `session_changes`: what a list says of each session, kept as sessions change: states, not messages
- `starts`: when the gateway was started, and how the run before each start had ended
- `time_zones`: names of time zones, checked
- `workspace_files`: names of files in a workspace that belong to this machine, and to no store
- `acp/`: one agent for an editor, in the Agent Client Protocol: over standard input and output
- `app/`: the composition root: the one place that knows every part, and puts them together
- `builtin/`: the plug-ins that come with Everturn, found through entry points as all others are
- `channels/`: the chat channels of a gateway: which bots there are, and what stands behind them
- `cli/`: what a person can type: reads the command line, then loads the command that is called
- `client/`: the one client of the HTTP API: to a gateway in another process, or to one in this
- `commands/`: what the commands do
- `config/`: `everturn.yaml`: what it may say, read and checked
- `doctor/`: is everything in order, and what to do where it is not: for a workspace, served or not
- `http/`: the HTTP surface: routes over the entry point, access, limits, and the server that
  listens
- `mcp_server/`: agents for clients of MCP: each agent is a tool, each session a resource
- `plugins/`: plug-ins: channels, model providers, tools, context policies and stores
- `principals/`: who may ask what of the gateway: principals, their scopes, their tokens, their
  limits
- `providers/`: models: remote ones behind their APIs, the embedded one, and two that are none
- `retention/`: what goes of what is kept: by age and size as the owner set it, and what a person
  said
- `scheduler/`: scheduled jobs: what they are, when they are due, and that each run runs once
- `search/`: what was said, found again: the index over the logs, and what may be shown of its
  matches
- `specs/`: agents as folders: read, checked, and reloaded when they change
- `telemetry/`: what a gateway tells of itself: metrics, traces, and what a line of the log is about
- `tools/`: the tools of agents, and what stands before them
- `usage/`: what models are used for, by agent and day: counted, priced, limited, and kept
- `voice/`: what people say and hear: voice notes become text, and answers sound
- `yaml_files/`: read YAML files into checked values, and say of everything that is wrong where it
  stands
"""
