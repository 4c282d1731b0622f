"""Errors of the channels: what goes wrong between a person and a conversation.

The first line of a class docstring is the text a person reads when no better message is given.
"""

from __future__ import annotations


class ChannelError(Exception):
    """Something went wrong on the way between a person and the conversation."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


class DoorError(ChannelError):
    """The gateway cannot be reached, or does not understand what it was asked."""
