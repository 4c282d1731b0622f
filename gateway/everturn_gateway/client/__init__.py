"""The one client of the HTTP API: to a gateway in another process, or to one in this.

- `agents`: asks a running gateway about its agents, and about the tools and the prompts of one
- `answers`: what a gateway's answers mean: values, updates of a conversation, and errors
- `api`: the HTTP API of a gateway, in another process or in this one: requests, answers, errors
- `channels`: asks a running gateway the status of its channels
- `contexts`: asks a gateway what the model of a session is shown, and has older turns summarised
- `history`: asks a gateway for what was said in its sessions, and for the files of it
- `in_process`: HTTP to an application in the same process: no socket, and answers that come piece
  by piece
- `maintenance`: has a gateway clean and erase
- `memory`: asks a gateway what stays with the model of a session, and changes it
- `models`: asks a running gateway what it learnt about models, and has it forget
- `readiness`: asks a running gateway whether it takes messages, and what of it is down
- `schedules`: the scheduled jobs of a gateway, for the commands
- `sessions`: the sessions of a gateway, for the terminal and the commands
- `undoing`: what a gateway says that it took back, in words for people
"""

from everturn_gateway.client.agents import ToolsNow, ask_tools
from everturn_gateway.client.api import Api, open_api, open_api_here, open_http
from everturn_gateway.client.channels import ask_channels
from everturn_gateway.client.readiness import Readiness, TaskDown, ask_readiness
from everturn_gateway.client.sessions import SessionClient

__all__ = [
    "Api",
    "Readiness",
    "SessionClient",
    "TaskDown",
    "ToolsNow",
    "ask_channels",
    "ask_readiness",
    "ask_tools",
    "open_api",
    "open_api_here",
    "open_http",
]
