"""What a failure of discord.py or of the network means to us, in words for people. Pure."""

from __future__ import annotations

import aiohttp
import discord

from everturn_channels.discord.client import Attempt
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.proxies import failure

PORTAL = "https://discord.com/developers/applications"
NETWORK_ERRORS = (OSError, TimeoutError, aiohttp.ClientError)
"What requests raise beside the library's own errors. Their texts may hold addresses with secrets."

# Source of all codes: https://docs.discord.com/developers/topics/opcodes-and-status-codes, 2026-11.
BAD_TOKEN, BAD_INTENTS = 4004, 4014
_BAD_SETUP = {
    4010: "Discord does not accept the shard of this bot.",
    4011: "This bot is in so many servers that Discord wants it in shards, which Everturn has not.",
    4012: "Discord does not know this version of its gateway any more: Everturn is too old.",
    4013: "Discord does not know an intent of ours: Everturn is too old.",
}
UNKNOWN_CHANNEL, UNKNOWN_GUILD = 10003, 10004
MISSING_ACCESS, MISSING_PERMISSIONS, INVALID_FORM = 50001, 50013, 50035
NO_HISTORY, THREAD_EXISTS = 160_002, 160_004
_GONE = {
    UNKNOWN_CHANNEL: "the channel does not exist any more",
    UNKNOWN_GUILD: "the server does not exist any more, or the bot was removed from it",
    MISSING_ACCESS: "the bot cannot see the channel",
    MISSING_PERMISSIONS: "the bot may not write there",
    50007: "this person takes no messages from the bot",
    50278: "this person shares no server with the bot any more",
    50008: "nothing can be written in a channel of this kind",
    50024: "nothing can be written in a channel of this kind",
    50083: "the thread is archived and locked",
    160_005: "the thread is locked",
}
_RETRY = {
    20016: "slow mode",
    20028: "too many messages in this channel",
    20029: "too many messages in this server",
}


def setup_error(name: str, error: BaseException) -> SetupError | None:
    """Return what the owner of a channel has to do about an error; None where that is nothing."""
    code = error.code if isinstance(error, discord.ConnectionClosed) else 0
    if code == BAD_INTENTS:
        return SetupError(
            "Discord refused the bot because the Message Content Intent is off. Switch it on: "
            f"{PORTAL}, your application, Bot, Privileged Gateway Intents, Message Content "
            "Intent, Save Changes."
        )
    if isinstance(error, discord.LoginFailure) or code == BAD_TOKEN:
        return SetupError(
            f"Discord does not accept the token in channels.{name}.bot_token. Make a new one: "
            f"{PORTAL}, your application, Bot, Reset Token."
        )
    if code in _BAD_SETUP:
        return SetupError(_BAD_SETUP[code])
    return None


def connection_error(name: str, error: BaseException) -> ChannelError:
    """Return what an end of the connection means."""
    found = setup_error(name, error)
    if found is not None:
        return found
    if isinstance(error, discord.ConnectionClosed):
        return ConnectionLostError(f"Discord closed the connection with code {error.code}.")
    if isinstance(error, discord.HTTPException):
        return ConnectionLostError(f"Discord answered with {_status(error)}.")
    return ConnectionLostError(f"Discord cannot be reached ({failure(error)}).")


def send_error(error: BaseException, attempt: Attempt) -> SendError:
    """Return what a failed request to say something means."""
    if isinstance(error, discord.RateLimited):
        wait_s = error.retry_after
        text = f"Discord wants {wait_s:.0f} seconds of silence"
        if attempt.is_global:
            return NotSentError(f"{text}.", retry_after_s=wait_s)
        return NotSentError(f"{text} in this channel.")
    if isinstance(error, discord.HTTPException) and error.status < 500:
        return _refused(error)
    if not attempt.is_out:
        return NotSentError(f"Discord cannot be reached ({failure(error)}).")
    if isinstance(error, discord.HTTPException):
        return UnknownOutcomeError(f"Discord answered with {_status(error)}.")
    return UnknownOutcomeError(f"The connection broke off ({type(error).__name__}).")


def _refused(error: discord.HTTPException) -> SendError:
    if error.status == 401:
        return NotSentError("Discord does not accept the token of the bot any more.")
    if error.status == 429:
        return NotSentError("Discord turned the bot away for asking too often.")
    if error.code in _RETRY:
        return NotSentError(f"Discord does not take it now: {_RETRY[error.code]}.")
    if error.code in _GONE:
        return RefusedError(f"Discord does not take it: {_GONE[error.code]}.", is_chat_gone=True)
    return RefusedError(f"Discord does not take it: {_status(error)}.")


def _status(error: discord.HTTPException) -> str:
    detail = " ".join(error.text.split())[:200] if error.text else ""
    return f"{error.status} ({error.code}) {detail}".rstrip()
