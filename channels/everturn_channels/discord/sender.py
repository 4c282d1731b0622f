"""Saying things on Discord: each request once, with a deadline and a clear outcome."""

from __future__ import annotations

import io
import json
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

import anyio
import discord
from discord.http import Route

from everturn_channels.adapter import Button, Outbound
from everturn_channels.discord.client import Attempt, Client
from everturn_channels.discord.failures import (
    INVALID_FORM,
    MISSING_PERMISSIONS,
    NETWORK_ERRORS,
    NO_HISTORY,
    THREAD_EXISTS,
    UNKNOWN_CHANNEL,
    send_error,
)
from everturn_channels.discord.markup import LIMIT_UNITS
from everturn_channels.discord.splitting import units
from everturn_channels.errors import (
    NotSentError,
    RefusedError,
    SendError,
    UnknownOutcomeError,
    paused_s,
)
from everturn_channels.languages import marked, said

DEADLINE_S = 60.0
"For one request, the waits of the library for its turn included."
FILES_MAX_BYTES = 10 * 1024 * 1024
"""What every server takes; some take more.

Source: https://docs.discord.com/developers/reference#uploading-files, 2026-11.
"""
FILES_AT_ONCE = 10
"Source: https://docs.discord.com/developers/reference#uploading-files, 2026-11."
LABEL_CHARS = 80
REPEAT_LABEL = marked("(This may be a repeat.)")
NEXT_IS_REPEAT = marked("(The next message may be a repeat.)")
ROW_BUTTONS, ROWS = 5, 5
# SUPPRESS_EMBEDS: Discord fetches an address that it embeds before anybody clicks, and one in an
# answer, or in the question about a call, may carry what the conversation says.
# Source: https://discord.com/developers/docs/resources/message#message-object-message-flags.
NO_EMBEDS = 1 << 2
NO_PINGS: dict[str, object] = {"parse": [], "replied_user": False}
"Nobody is notified by what a text holds."
TITLE_CHARS = 90
TITLE = marked("Conversation")
_REMEMBERED = 2_000

T = TypeVar("T")

log = logging.getLogger(__name__)

Act: TypeAlias = Literal["message", "file", "edit", "reaction", "typing", "thread"]
"What is done; permissions depend on it."
_NEEDED: dict[Act, tuple[str, ...]] = {
    "message": ("view_channel", "send_messages"),
    "file": ("view_channel", "send_messages", "attach_files"),
    "edit": ("view_channel",),
    "reaction": ("view_channel", "read_message_history", "add_reactions"),
    "typing": ("view_channel", "send_messages"),
    "thread": ("view_channel", "create_public_threads", "send_messages_in_threads"),
}


class Sender:
    """Says things through the client of the moment."""

    def __init__(self, *, opens_threads: bool = False) -> None:
        self.client: Client | None = None
        "None = not logged in."
        self.opens_threads = opens_threads
        "Whether a question in a channel is answered in a thread below it."
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._instead: OrderedDict[str, int] = OrderedDict()
        "By thread that cannot be opened: the channel."
        self.topics: OrderedDict[str, str] = OrderedDict()
        "By message that stands in a channel instead: the thread."
        self._paused_until: dict[int, float] = {}
        "By channel, on the event loop's clock: Discord wants to hear nothing there."
        self._homes: OrderedDict[str, int] = OrderedDict()
        "The thread of a message, the newest; whoever reacts names only its chat."
        self._reactions: OrderedDict[str, str] = OrderedDict()

    def remember_home(self, message_id: int, thread_id: int) -> None:
        """Remember that a message stands in a thread."""
        _remember(self._homes, str(message_id), thread_id)

    def remember_title(self, message_id: str, text: str) -> None:
        """Remember what a thread is called that is opened below a message."""
        _remember(self._titles, message_id, " ".join(text.split())[:TITLE_CHARS])

    def place_of(self, chat: str, topic: str) -> int:
        """Return the channel or thread in which something is said."""
        return self._instead.get(topic) or channel_of(chat, topic)

    async def _in_place(self, chat: str, topic: str, act: Callable[[int], Awaitable[T]]) -> T:
        """Do something in a channel or a thread, which is opened where nobody did so far.

        A thread has the id of the message that it stands below, so two of them cannot come to be.
        """
        place = self.place_of(chat, topic)
        try:
            return await act(place)
        except RefusedError as error:
            if not (self.opens_threads and topic and _is_unknown(error)):
                raise
        return await act(await self._open_thread(chat, topic))

    async def _open_thread(self, chat: str, topic: str) -> int:
        """Open a thread below a question; return it, or the channel where none can be opened.

        What belongs into a thread that people opened, and deleted, is said nowhere else.

        Source: https://docs.discord.com/developers/resources/channel#start-thread-from-message,
        2026-11.
        """
        route = Route(
            "POST",
            "/channels/{channel_id}/messages/{message_id}/threads",
            channel_id=_id(chat),
            message_id=_id(topic),
        )
        try:
            await self._request("thread", route, {"name": self._titles.get(topic) or said(TITLE)})
        except RefusedError as error:
            if getattr(error.__cause__, "code", 0) != THREAD_EXISTS:
                if topic not in self._titles:  # else it is a question of this process
                    await self._find(chat, topic)
                fields = {"channel_id": chat, "why": str(error)}
                log.warning(
                    "a thread cannot be opened: it is answered in the channel", extra=fields
                )
                _remember(self._instead, topic, _id(chat))
                return _id(chat)
        except UnknownOutcomeError as error:  # once it is open it is found so
            raise NotSentError(str(error)) from error
        return _id(topic)

    async def _find(self, chat: str, message_id: str) -> None:
        """Look for a message in a channel.

        Raises:
            SendError: It is not there, or may not be.
        """
        route = Route(
            "GET",
            "/channels/{channel_id}/messages/{message_id}",
            channel_id=_id(chat),
            message_id=_id(message_id),
        )
        try:
            await self._request("thread", route)
        except RefusedError as error:
            raise RefusedError(str(error), is_chat_gone=True) from error

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        name = await self._in_place(message.chat_id, message.topic, partial(self._send, message))
        if message.topic in self._instead:
            _remember(self.topics, name, message.topic)
        return name

    async def _send(self, message: Outbound, channel: int) -> str:
        payload = _content(message.payload)
        if message.is_repeat and message.is_late:  # the nonce may be forgotten
            await self._label(message, payload)  # the person is told that it may stand there twice
        payload |= {"allowed_mentions": NO_PINGS, "flags": NO_EMBEDS}
        # the library repeats a request after some errors of the server: never without a nonce
        payload |= {"nonce": message.nonce or secrets.token_hex(8), "enforce_nonce": True}
        # What a thread stands below is in another channel.
        if message.reply_to.isdecimal() and message.reply_to != str(channel):
            payload["message_reference"] = {
                "message_id": message.reply_to,
                "fail_if_not_exists": False,
            }
            payload["allowed_mentions"] = NO_PINGS | {"replied_user": True}
        if message.buttons:
            payload["components"] = button_components(message.buttons)
        route = Route("POST", "/channels/{channel_id}/messages", channel_id=channel)
        act: Act = "file" if message.file else "message"
        try:
            answer = await self._request(act, route, payload, message)
        except _ReplyRefusedError:
            # The message that it replies to is gone, or hidden from the bot.
            del payload["message_reference"]
            answer = await self._request(act, route, payload, message)
        return str(answer["id"])

    async def _label(self, message: Outbound, payload: dict[str, object]) -> None:
        """Say that a message may be a repeat: above its text, or before it where there is no room.

        Raises:
            SendError: It could not be said; the message itself was not sent.
        """
        text = f"{said(REPEAT_LABEL)}\n{payload.get('content', '')}".rstrip()
        if units(text) <= LIMIT_UNITS:
            payload["content"] = text
            return
        line = json.dumps({"content": said(NEXT_IS_REPEAT)})
        before = Outbound(chat_id=message.chat_id, topic=message.topic, payload=line)
        try:
            await self.send(before)
        except UnknownOutcomeError as error:  # the line may be there; the message surely is not
            raise NotSentError(str(error)) from error

    async def edit(self, chat: str, topic: str, platform_id: str, payload: str) -> None:
        """As `Adapter.edit`."""
        try:
            await self._edit(self.place_of(chat, topic), platform_id, payload)
        except RefusedError as error:
            if not (self.opens_threads and topic and _is_unknown(error)):
                raise
            # Where none could be opened, before a restart, it stands in the channel.
            await self._edit(_id(chat), platform_id, payload)

    async def _edit(self, channel: int, platform_id: str, payload: str) -> None:
        route = Route(
            "PATCH",
            "/channels/{channel_id}/messages/{message_id}",
            channel_id=channel,
            message_id=_id(platform_id),
        )
        body = _content(payload)
        body |= {"allowed_mentions": NO_PINGS, "flags": NO_EMBEDS, "components": []}
        await self._request("edit", route, body)

    async def type(self, chat: str, topic: str) -> None:
        """As `Adapter.type`."""

        async def show(channel: int) -> None:
            route = Route("POST", "/channels/{channel_id}/typing", channel_id=channel)
            await self._request("typing", route)

        await self._in_place(chat, topic, show)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """As `Adapter.react`."""
        channel = self._homes.get(message_id) or channel_of(chat_id, "")
        known = self._reactions.get(message_id, "")
        if emoji:
            await self._reaction("PUT", channel, message_id, emoji)
            _remember(self._reactions, message_id, emoji)
            if known and known != emoji:
                await self._reaction("DELETE", channel, message_id, known)
            return
        self._reactions.pop(message_id, None)
        for each in [known] if known else await self._own_reactions(channel, message_id):
            await self._reaction("DELETE", channel, message_id, each)

    async def _reaction(
        self, method: Literal["PUT", "DELETE"], channel: int, message_id: str, emoji: str
    ) -> None:
        route = Route(
            method,
            "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me",
            channel_id=channel,
            message_id=_id(message_id),
            emoji=emoji,
        )
        await self._request("reaction", route)

    async def _own_reactions(self, channel: int, message_id: str) -> list[str]:
        route = Route(
            "GET",
            "/channels/{channel_id}/messages/{message_id}",
            channel_id=channel,
            message_id=_id(message_id),
        )
        message = await self._request("reaction", route)
        own = [r["emoji"] for r in message.get("reactions", ()) if r["me"]]
        return [f"{e['name']}:{e['id']}" if e["id"] else str(e["name"]) for e in own]

    async def post(
        self,
        method: Literal["POST", "PATCH", "DELETE"],
        path: str,
        body: dict[str, object] | None = None,
    ) -> None:
        """Answer an interaction. Raises SendError."""
        # such an address is a secret of its own; it is one request, so no bucket has to be shared
        await self._request("message", Route(method, path), body)

    async def _request(
        self,
        act: Act,
        route: Route,
        body: dict[str, Any] | None = None,
        message: Outbound | None = None,
    ) -> Any:  # JSON
        client, attempt = self.client, Attempt()
        if client is None:
            text = "The bot is not logged in to Discord."
            raise NotSentError(text)
        self._check_quiet(route)  # asked again in a pause, Discord makes it longer
        arguments: dict[str, Any] = {"trace_request_ctx": attempt}
        if body is not None and message is not None and message.file is not None:
            arguments |= _form(body, message)
        elif body is not None:
            arguments["json"] = body
        try:
            with anyio.fail_after(DEADLINE_S):
                return await client.http.request(route, **arguments)
        except discord.RateLimited as error:
            if not attempt.is_global and route.channel_id:
                until = anyio.current_time() + paused_s(error.retry_after)
                # Of this channel alone; the library waits for all others.
                self._paused_until[int(route.channel_id)] = until
            raise send_error(error, attempt) from error
        except discord.HTTPException as error:
            if _is_about_reply(error, body):
                raise _ReplyRefusedError from error
            raise self._explained(client, act, route, error, attempt) from error
        except NETWORK_ERRORS as error:
            raise send_error(error, attempt) from error
        except RuntimeError as error:
            if "closed" not in str(error):
                raise
            # aiohttp's, where the client was closed in the meantime
            raise _closed(attempt) from error

    def _check_quiet(self, route: Route) -> None:
        if not route.channel_id:
            return
        wait_s = self._paused_until.get(int(route.channel_id), 0.0) - anyio.current_time()
        if wait_s > 0:
            text = f"Discord wants {wait_s:.0f} more seconds of silence in this channel."
            raise NotSentError(text)
        self._paused_until.pop(int(route.channel_id), None)

    def _explained(
        self,
        client: Client,
        act: Act,
        route: Route,
        error: discord.HTTPException,
        attempt: Attempt,
    ) -> SendError:
        found = send_error(error, attempt)
        if error.code != MISSING_PERMISSIONS or not route.channel_id:
            return found
        missing = _missing(client, int(route.channel_id), act)
        names = ", ".join(p.replace("_", " ").title() for p in missing)
        text = f"Discord does not take it: the bot lacks permissions there ({names})."
        # Where no message may stand, nothing of it can be delivered.
        is_gone = act == "message" or (act == "file" and missing != ("attach_files",))
        return RefusedError(text, is_chat_gone=is_gone)


class _ReplyRefusedError(Exception):
    """Only that it is a reply was refused; nothing was sent."""


def _is_unknown(error: RefusedError) -> bool:
    return getattr(error.__cause__, "code", 0) == UNKNOWN_CHANNEL


def _is_about_reply(error: discord.HTTPException, body: dict[str, Any] | None) -> bool:
    if body is None or "message_reference" not in body:
        return False
    is_named = error.code == INVALID_FORM and "message_reference" in error.text
    return is_named or error.code == NO_HISTORY


def _closed(attempt: Attempt) -> SendError:
    text = "The connection to Discord was closed."
    # What went out may have arrived.
    return UnknownOutcomeError(text) if attempt.is_out else NotSentError(text)


def _missing(client: Client, channel_id: int, act: Act) -> tuple[str, ...]:
    """Return the permissions that the bot lacks; all that are needed where it is not known."""
    channel = client.get_channel(channel_id)
    needed = _NEEDED[act]
    if not isinstance(channel, discord.abc.GuildChannel | discord.Thread):
        return needed
    if isinstance(channel, discord.Thread):
        needed = tuple("send_messages_in_threads" if p == "send_messages" else p for p in needed)
    try:
        allowed = channel.permissions_for(channel.guild.me)
    except discord.ClientException:  # a thread whose channel is not known
        return needed
    return tuple(p for p in needed if not getattr(allowed, p)) or needed


def _content(payload: str) -> dict[str, object]:
    return {"content": json.loads(payload)["content"]} if payload else {}


def _form(body: dict[str, object], message: Outbound) -> dict[str, object]:
    """Return a message with its files as the parts of a form."""
    names = [re.sub(r"[^\w.\- ]", "_", each.file_name).strip() or "file" for each in message.files]
    files = [
        discord.File(io.BytesIO(each.data), filename=name)
        for each, name in zip(message.files, names, strict=True)
    ]
    attachments = [{"id": number, "filename": name} for number, name in enumerate(names)]
    form: list[dict[str, object]] = [
        {"name": "payload_json", "value": json.dumps({**body, "attachments": attachments})},
        *(
            {
                "name": f"files[{number}]",
                "value": data.fp,
                "filename": names[number],
                "content_type": message.files[number].media_type or "application/octet-stream",
            }
            for number, data in enumerate(files)
        ),
    ]
    return {"form": form, "files": files}


def button_components(buttons: Sequence[Button]) -> list[dict[str, object]]:
    """Return buttons as rows of a message.

    Source: https://docs.discord.com/developers/components/reference, 2026-11.
    """
    each = [
        {"type": 2, "style": 2, "label": b.label[:LABEL_CHARS], "custom_id": b.data}
        for b in buttons[: ROW_BUTTONS * ROWS]  # more, and Discord refuses the message
    ]
    rows = [each[i : i + ROW_BUTTONS] for i in range(0, len(each), ROW_BUTTONS)]
    return [{"type": 1, "components": row} for row in rows]


def channel_of(chat: str, topic: str) -> int:
    """Return where a message of a chat goes: threads are channels of their own."""
    return _id(topic or chat)


def _id(text: str) -> int:
    if not text.isdecimal():
        problem = f"Discord has no id {text!r}."
        raise RefusedError(problem, is_chat_gone=True)
    return int(text)


def _remember(kept: OrderedDict[str, Any], key: str, value: str | int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)
