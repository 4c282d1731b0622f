"""Errors of the channels: what goes wrong between a person and a conversation.

The first line of a class docstring is the text a person reads when no better message is given.
"""

from __future__ import annotations

import math
from typing import Final

QUIET_MAX_S: Final = 24 * 3600.0
"The longest that a platform's word keeps a bot quiet; whoever sends more sends nonsense."


class ChannelError(Exception):
    """Something went wrong on the way between a person and the conversation."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


class ClientError(ChannelError):
    """The gateway cannot be reached, or does not understand what it was asked."""


class GatewayAwayError(ClientError):
    """The gateway does not answer, and may again: what it accepted is kept."""


# --- between a channel and the conversations ---


class NotNowError(ChannelError):
    """It cannot be taken now: it stays with its platform, and is handed in again later.

    Attributes:
        retry_after_s: How long whoever hands it in waits before the next try.
    """

    def __init__(self, message: str = "", *, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


# --- between a channel and its platform ---


class SetupError(ChannelError):
    """The channel cannot work as it is set up, and its owner has to change something.

    A bad token, a missing intent. It is tried again, at long intervals: what is wrong may be set
    right on the platform.
    """


class ConnectionLostError(ChannelError):
    """The platform cannot be reached, or sent the channel away; it is tried again soon."""


class SendError(ChannelError):
    """Something could not be sent."""


class NotSentError(SendError):
    """It was surely not sent, and can be tried again.

    Attributes:
        retry_after_s: How long the whole bot has to be quiet, by the platform's word, at most
            `QUIET_MAX_S`; None = it said nothing.
        waits_for_person: Whether it is in vain until a person does something, which
            `InboundHandler.deliverable` says: each try is written down, and may be one for days.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retry_after_s: float | None = None,
        waits_for_person: bool = False,
    ) -> None:
        self.retry_after_s = None if retry_after_s is None else paused_s(retry_after_s)
        self.waits_for_person = waits_for_person
        super().__init__(message)


class UnknownOutcomeError(SendError):
    """It may have been sent: the answer of the platform was lost."""


class RefusedError(SendError):
    """The platform will not take it, now or later.

    Attributes:
        is_chat_gone: Nothing else can be sent to this chat either: the bot was blocked or removed,
            or the chat or its topic was deleted.
    """

    def __init__(self, message: str = "", *, is_chat_gone: bool = False) -> None:
        self.is_chat_gone = is_chat_gone
        super().__init__(message)


class ChatMovedError(RefusedError):
    """The platform refused it because the chat has another id now; there it may be sent.

    Attributes:
        to: The id that the chat has now.
    """

    def __init__(self, message: str = "", *, to: str) -> None:
        self.to = to
        super().__init__(message, is_chat_gone=True)


class FileTooLargeError(ChannelError):
    """A file that came with a message is larger than what is taken."""


def paused_s(asked_s: float) -> float:
    """Return how long a bot is quiet where a platform asks for so long: within reason."""
    return min(max(asked_s, 0.0), QUIET_MAX_S) if not math.isnan(asked_s) else 0.0
