"""What an event of Slack means, as values of a channel."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from everturn_channels.adapter import ChatRef, Command, Edit, Message, Outbound, Reaction
from everturn_channels.command_registry import typed_command
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.json_fields import Json, object_of, objects_of, text_of
from everturn_channels.slack.files import files_of
from everturn_channels.slack.formats.content import (
    described,
    embeds_in,
    passed_on,
    unread,
    written_in,
)
from everturn_channels.slack.formats.emojis import emoji_of
from everturn_channels.slack.formats.markup import render
from everturn_channels.slack.formats.text import (
    QUOTE_CHARS,
    is_from_person,
    mentions,
    people_in,
    readable,
    thread_of,
    time_of,
)
from everturn_channels.slack.names import Names, is_dm
from everturn_channels.slack.requests import RequestFailedError, SlackApi
from everturn_channels.slack.sender import Sender

_MARKS: Final = "/!"
"A text that begins with a slash is kept by Slack's own clients, unless a mention stands before it."
_THREADS_KNOWN: Final = 5_000
_SOMEBODY: Final = "somebody else"
_SHORT_CHARS: Final = 200
_AN_APP: Final = "an app"


class Login(Struct, frozen=True, kw_only=True):
    """One login: who the bot is, and what was told to it."""

    api: SlackApi
    me: str
    "The bot's id as a person, `U...`."
    name: str
    "What people call it."
    names: Names
    sender: Sender
    has_threads: bool


class _Thread(Struct, frozen=True, kw_only=True):
    """How a thread began."""

    is_ours: bool
    "Whether a message of the bot's, or one to it, began it."
    quoted: str = ""
    "What began it, where that stands in another conversation, shortened."
    quoted_name: str = ""
    "Who wrote that."
    is_outside: bool = False
    "Whether another app wrote that, by the words of whoever it speaks for."

    @property
    def is_long(self) -> bool:
        """Whether it is more than what is only to be recognised: an alert, say."""
        return len(self.quoted) > _SHORT_CHARS

    def described(self) -> tuple[str, ...]:
        """Return what began it in words of ours, where it is long."""
        said = f'this thread began with a message of {self.quoted_name}: "{self.quoted}"'
        return (said,) if self.is_long else ()


class _Words(Struct, frozen=True, kw_only=True):
    """What a message says."""

    text: str
    forwarded_from: str = ""
    "Whose words all of it is; empty = its sender's own."
    described: tuple[str, ...] = ()
    is_outside: bool = False
    "Whether words in it are those of somebody else than its sender."


class EventReader:
    """Reads events for one login."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._begun: OrderedDict[tuple[str, str], tuple[bool, str]] = OrderedDict()
        "By channel and thread: whether the bot is in it, and its first message that was read."

    @property
    def me(self) -> str:
        """The bot's id as a person."""
        return self._login.me

    async def message(self, channel: str, raw: Json) -> Sequence[Message | Command]:
        """Return what a message brings; nothing where no person wrote it.

        Raises:
            ConnectionLostError: Slack has to be asked for that, and cannot be reached.
            ValueError: It cannot be read.
        """
        if not is_from_person(raw):
            return ()
        login, ts = self._login, text_of(raw, "ts")
        at, is_meant = time_of(ts), self._names_bot(raw)
        thread, began = self.thread(channel, raw), _Thread(is_ours=False)
        if thread == ts:
            self._note(channel, ts, is_ours=True)
        elif thread:
            began = await self._thread(channel, thread, ts)
            is_meant = is_meant or began.is_ours
        sender = await login.names.person(text_of(raw, "user"))
        chat = await login.names.chat(channel, thread, sender)
        files, others = files_of(raw, login.api)
        words = await self._words(raw, sender.name)
        more = (*began.described(), *words.described, *others)
        if not (words.text or files or more) and (left := unread(raw)):
            more = (left,)
        message = Message(
            id=ts,
            chat=chat,
            sender=sender,
            text=words.text,
            at=at,
            is_addressed=is_meant,
            files=files,
            quoted="" if began.is_long else began.quoted,
            quoted_name="" if began.is_long else began.quoted_name,
            forwarded_from=words.forwarded_from,
            described=more,
            is_outside=words.is_outside or began.is_outside,
        )
        command = typed_command(message.text, marks=_MARKS)
        if command is None or not (is_meant or chat.type == "dm") or words.forwarded_from:
            return (message,)
        is_typed = not (raw.get("edited") or files or text_of(raw, "subtype"))
        return (_command(message, command, self._answer(chat, ts), is_typed=is_typed),)

    async def edit(self, channel: str, raw: Json) -> Sequence[Edit]:
        """Return what a change brings; `raw` is the message as it stands now.

        Raises:
            As `message`.
        """
        login, ts = self._login, text_of(raw, "ts")
        sender = await login.names.person(text_of(raw, "user"))
        edit = Edit(
            id=ts,
            chat=await login.names.chat(channel, self.thread(channel, raw), sender),
            sender=sender,
            text=(await self._words(raw, sender.name)).text,
            at=time_of(text_of(raw, "edited", "ts") or ts),
            is_addressed=self._names_bot(raw),
        )
        return (edit,)

    async def reaction(self, event: Json) -> Sequence[Reaction]:
        """Return a reaction on a message of the bot's.

        Raises:
            As `message`.
        """
        login, item = self._login, object_of(event, "item")
        channel, ts, user = text_of(item, "channel"), text_of(item, "ts"), text_of(event, "user")
        try:
            found = await login.api.read(
                "conversations.replies", {"channel": channel, "ts": ts, "limit": 1}
            )
        except RequestFailedError as error:
            if error.is_refusal:
                return ()
            raise ConnectionLostError(str(error)) from error
        messages = objects_of(found, "messages")
        raw: Json = next((m for m in messages if text_of(m, "ts") == ts), dict[str, object]())
        sender = await login.names.person(user)
        reaction = Reaction(
            message_id=ts,
            emoji=emoji_of(text_of(event, "reaction")),
            chat=await login.names.chat(channel, thread_of(raw), sender),
            sender=sender,
            at=time_of(text_of(event, "event_ts") or ts),
        )
        return (reaction,)

    def thread(self, channel: str, raw: Json) -> str:
        """Return the thread of a message: where it stands, or what it begins; empty = none."""
        login, thread = self._login, thread_of(raw)
        if thread or not login.has_threads or is_dm(channel):
            return thread
        return text_of(raw, "ts") if self._names_bot(raw) else ""

    def _names_bot(self, raw: Json) -> bool:
        return mentions(written_in(raw), self._login.me)

    async def _words(self, raw: Json, name: str) -> _Words:
        """Return what a message says.

        What it passes on is all of it, or stands as a quotation below its sender's own words.

        Args:
            raw: The message.
            name: Of its sender.
        """
        text = await self._readable(written_in(raw))
        if text and text_of(raw, "subtype") == "me_message":
            text = f"* {name} {text}"
        shared, embeds = passed_on(raw), embeds_in(raw)
        more = (*described(raw), *embeds)
        if not shared:
            return _Words(text=text, described=more, is_outside=bool(embeds))
        passed = [await self._readable(each.written) for each in shared]
        authors = ", ".join(dict.fromkeys(each.author or _SOMEBODY for each in shared))
        if not text:
            whole = "\n\n".join(filter(None, passed))
            return _Words(text=whole, forwarded_from=authors, described=more, is_outside=True)
        quotes = [f"> {line}".rstrip() for line in "\n\n".join(passed).split("\n")]
        more = (f"the quoted lines are forwarded from {authors}", *more)
        return _Words(text="\n".join((text, "", *quotes)), described=more, is_outside=True)

    async def _readable(self, written: str) -> str:
        login = self._login
        names = dict(await login.names.of([u for u in people_in(written) if u != login.me]))
        return readable(written, names | {login.me: login.name}, login.me)

    async def _thread(self, channel: str, thread: str, ts: str) -> _Thread:
        """Return how a thread began; what began it is told with the first message that is read.

        That is `ts` where it is read once more, too: nobody has taken it then, perhaps.
        """
        is_ours, first = self._begun.get((channel, thread), (False, ts))
        if first != ts:
            return _Thread(is_ours=is_ours)
        found = await self._look(channel, thread)
        self._note(channel, thread, is_ours=found.is_ours, first=ts)
        return found

    async def _look(self, channel: str, thread: str) -> _Thread:
        login = self._login
        try:
            found = await login.api.read(
                "conversations.replies", {"channel": channel, "ts": thread, "limit": 1}
            )
        except RequestFailedError as error:
            if error.is_refusal:
                return _Thread(is_ours=False)
            raise ConnectionLostError(str(error)) from error
        messages = objects_of(found, "messages")
        first: Json = messages[0] if messages else {}
        author, is_to_me = text_of(first, "user"), self._names_bot(first)
        if is_to_me and login.has_threads and not is_dm(channel):
            return _Thread(is_ours=True)  # it stands in the conversation
        is_own = author == login.me
        name = text_of(first, "username") or text_of(first, "bot_profile", "name") or _AN_APP
        if author:
            name = login.name if is_own else (await login.names.person(author)).name
        words = await self._words(first, name)
        files, others = files_of(first, login.api)
        names = [each.file_name for each in files]
        quoted = " ".join((words.text, *words.described, *names, *others)).strip()
        return _Thread(
            is_ours=is_own or is_to_me,
            quoted=quoted[:QUOTE_CHARS],
            quoted_name=name,
            is_outside=bool(first.get("bot_id")) and not is_own,
        )

    def _note(self, channel: str, thread: str, *, is_ours: bool, first: str = "") -> None:
        self._begun[channel, thread] = is_ours, first
        self._begun.move_to_end((channel, thread))
        if len(self._begun) > _THREADS_KNOWN:
            self._begun.popitem(last=False)

    def _answer(self, chat: ChatRef, ts: str) -> Callable[[str], Awaitable[None]]:
        """Return what answers a command that was written as a message: messages, seen by all."""

        async def answer(text: str) -> None:
            for number, payload in enumerate(render(text)):
                nonce = f"c{ts}-{number}"
                reply = Outbound(chat_id=chat.id, topic=chat.topic, payload=payload, nonce=nonce)
                await self._login.sender.send(reply)

        return answer


def _command(
    message: Message,
    command: tuple[str, str],
    answer: Callable[[str], Awaitable[None]],
    *,
    is_typed: bool,
) -> Command:
    return Command(
        id=message.id,
        name=command[0],
        argument=command[1],
        chat=message.chat,
        sender=message.sender,
        at=message.at,
        is_addressed=message.is_addressed,
        is_typed=is_typed,
        otherwise=message,
        answer=answer,
    )
