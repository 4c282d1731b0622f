"""The headers by which clients of OpenAI's API name their conversations."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Depends
from msgspec import Struct
from starlette.requests import Request

from everturn_actors.json_values import Json
from everturn_gateway.http.openai.refusals import refuse

SESSION_HEADER: Final = "X-Everturn-Session"
_OPEN_WEB_UI: Final = "X-OpenWebUI-Chat-Id"
_LIBRE_CHAT: Final = "X-LibreChat-Conversation-Id"
_TASK: Final = "X-Everturn-Task"
_ABOUT: Final = {
    SESSION_HEADER: "Makes the call stateful: your own name of the conversation, or the id of a"
    " session. Only the last user message is then taken.",
    _OPEN_WEB_UI: "Makes the call stateful: the chat of a page, which sends its whole history."
    " Where people changed that, the chat goes on in a new session.",
    _LIBRE_CHAT: "The same, for LibreChat.",
    _TASK: "A page asks for something of its own, such as a title: the model is asked alone, and"
    " nothing is kept.",
}
_VALUE: Final = re.compile(r"[\x20-\x7e]{0,256}")
_NOT_KEPT: Final = ("temporary:", "local:", "channel:", "{{")
"How ids begin of chats that a page keeps nowhere, and a placeholder that nobody filled in."

# FastAPI would check each with a model of its own, which takes longer than all that is done here.
DESCRIBED: Final[Json] = {
    "parameters": [
        {
            "name": name,
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": 256, "pattern": r"^[\x20-\x7e]*$"},
            "description": about,
        }
        for name, about in _ABOUT.items()
    ]
}
"The headers, for the OpenAPI document."


class ClientHeaders(Struct, frozen=True, kw_only=True):
    """What a client says of its conversation in headers."""

    session: str
    "Its own name, or the id of a session; empty = none."
    chat: str
    "The chat of a page that sends its whole history with each message; empty = none."
    task: str
    "What a page asks for itself; empty = nothing."

    @property
    def is_page(self) -> bool:
        """Whether the chat of a page is meant."""
        return bool(self.chat) and not self.session

    @property
    def name(self) -> str:
        """What they name the conversation; empty where they do not."""
        return self.session or self.chat


def _client_headers(request: Request) -> ClientHeaders:
    headers = request.headers
    session, open_web_ui, libre_chat, task = [headers.get(name, "").strip() for name in _ABOUT]
    for name, value in zip(_ABOUT, (session, open_web_ui, libre_chat, task), strict=True):
        if not _VALUE.fullmatch(value):
            refuse(name, f"{name} has up to 256 printable characters of ASCII")
    chat = open_web_ui or libre_chat
    if chat == "new" or chat.startswith(_NOT_KEPT):
        chat = ""
    return ClientHeaders(session=session, chat=chat, task=task)


ClientHeadersOf = Annotated[ClientHeaders, Depends(_client_headers)]
