"""The tools of agents, and what stands before them.

Those that come with Everturn are plug-ins: each stands in a folder of its own, described by the
value in its `plugin.py`.

- `arguments`: the arguments of a tool, as values: their schema for the model, clear errors back to
  it
- `config`: which tools an agent is given, as its owner wrote it down
- `environment`: where the tools of one agent work, and what a tool may say beyond the core's
  Protocol
- `factory`: makes the tools of agents from their plans; owns what outlives a version of an agent
- `function`: a tool made of its parts, for tools that need no state of their own
- `helper_process`: has what strangers made taken apart by a process of its own, with limits on time
  and memory
- `inbox`: files that people send, put where the tools of an agent can read them
- `places`: where conversations take place: as owners name them, and those of delegates
- `quoting`: how a tool hands on what others wrote: in pages, and as a quote
- `reloading`: the tool `reload_tools`: makes what was written into the agent's folder usable at
  once
- `toolbox`: the tools of one version of an agent, which may change while it lives
- `wording`: names, paths and sizes as a model may read them
- `asking/`: questions of the agent to people, with choices; the core keeps them as it keeps
  approvals
- `browser/`: a browser of the agent's: a local Chromium, whose every connection goes to a checked
  address
- `checkpoints/`: what a workspace was before a turn changed it, so that the turn can be taken back
- `cli/`: cli tools: programs of an agent's owner, declared in `agent.yaml` or found in `tools`
  folders
- `compacting/`: `compact_context`: a model has older turns summarised when its work comes to a
  joint
- `confined/`: files below one folder, for tools that are given paths by a model
- `conversations/`: `delegate` and `session`: what one conversation can have to do with another
- `files/`: tools for the files of an agent's workspace
- `images/`: images that a model is shown: files of the workspace, scaled to what models take
- `marks/`: files of a workspace that hold text from outside: their marks, and who opens them
- `mcp/`: tools of Model Context Protocol servers, through the official client
- `memory/`: tools for notes that outlast a conversation
- `policy/`: the tool policy: which calls run, which need a person, and what stands around every
  call
- `processes/`: `background_process`: commands that outlive a call, a turn and the gateway itself
- `recall/`: `recall_context`: what is hidden from the model can be read back by it
- `scheduling/`: `schedule`: messages and tasks for later, in the conversation that asked for them
- `searching/`: tools that are found by a search instead of standing in every request
- `shell/`: the shell: the sandbox that commands run in, and the tool that runs them
- `skills/`: agent Skills: instructions that an agent reads when it needs them
- `todo/`: the tool `todo`: a list for long work, which the model keeps and people see
- `web/`: `web_fetch` and `web_search`: pages of the public Internet, and of what the owner allows
"""
