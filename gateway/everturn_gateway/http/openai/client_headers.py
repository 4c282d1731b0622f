"""The headers by which clients of OpenAI's API name their conversations."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Header
from msgspec import Struct

SESSION_HEADER: Final = "X-Everturn-Session"

_PRINTABLE: Final = r"^[\x20-\x7e]*$"
_NOT_KEPT: Final = ("temporary:", "local:", "channel:", "{{")
"How ids begin of chats that a page keeps nowhere, and a placeholder that nobody filled in."


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


def _client_headers(
    session: Annotated[
        str,
        Header(
            alias=SESSION_HEADER,
            max_length=256,
            pattern=_PRINTABLE,
            description="Makes the call stateful: your own name of the conversation, or the id of"
            " a session. Only the last user message is then taken.",
        ),
    ] = "",
    open_web_ui: Annotated[
        str,
        Header(
            alias="X-OpenWebUI-Chat-Id",
            max_length=256,
            pattern=_PRINTABLE,
            description="Makes the call stateful: the chat of a page, which sends its whole"
            " history. Where people changed that, the chat goes on in a new session.",
        ),
    ] = "",
    libre_chat: Annotated[
        str,
        Header(
            alias="X-LibreChat-Conversation-Id",
            max_length=256,
            pattern=_PRINTABLE,
            description="The same, for LibreChat.",
        ),
    ] = "",
    task: Annotated[
        str,
        Header(
            alias="X-Everturn-Task",
            max_length=256,
            description="A page asks for something of its own, such as a title: the model is asked"
            " alone, and nothing is kept.",
        ),
    ] = "",
) -> ClientHeaders:
    chat = (open_web_ui or libre_chat).strip()
    if chat == "new" or chat.startswith(_NOT_KEPT):
        chat = ""
    return ClientHeaders(session=session.strip(), chat=chat, task=task.strip())


ClientHeadersOf = Annotated[ClientHeaders, Depends(_client_headers)]
