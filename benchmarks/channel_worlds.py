"""The counterparts of channels in which `channel_kills.py` has people write and read.

Telegram, Discord, Matrix, Slack, WhatsApp and e-mail are the loopback ones of the tests; `synapse`
and `dovecot` are the real servers, which `make synapse` and `make dovecot` install.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

import aiohttp
import httpx2
from harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from support import synapse as real_matrix
from support.discord_api import DiscordApi, open_discord_api
from support.discord_rest import TOKEN as DISCORD_TOKEN
from support.dovecot import COMMAND as DOVECOT
from support.dovecot import Dovecot
from support.email_contract import BOT, SERVER, mail_from
from support.email_kills import answer_in
from support.imap_server import open_imap_server
from support.matrix_api import Room
from support.matrix_people import Person
from support.matrix_routes import open_matrix_api
from support.ports import free_port
from support.slack_api import ANN, APP_TOKEN, BOT_TOKEN
from support.slack_api import BOT as SLACK_BOT
from support.slack_methods import open_slack_api
from support.smtp_server import SmtpServer, open_smtp_server, read_mail
from support.smtp_server import text_of as plain_text_of
from support.telegram_api import TOKEN as TELEGRAM_TOKEN
from support.telegram_api import open_telegram_api
from support.whatsapp_api import APP_SECRET, NUMBER_ID, VERIFY_TOKEN, WhatsAppApi, open_whatsapp_api
from support.whatsapp_api import TOKEN as WHATSAPP_TOKEN

from everturn_gateway.clock import SystemClock

REPEAT = "(This may be a repeat.)"
"What stands before a message that may be there already."

Seen = tuple[Literal["markdown", "discord", "html", "plain"], str]
"How a message is written, and the message; of a plain one, with the addresses of its links."
Section = Mapping[str, object]
Answers = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class World:
    """A platform with one bot and many chats."""

    channel: str
    "What `everturn.yaml` calls it."
    section: Section
    "Of the channel."
    chats: Sequence[str]
    write: Callable[[str, int], Awaitable[object]]
    "Has somebody write a chat's message of this number."
    deliveries: Callable[[str], AbstractAsyncContextManager[object]] = lambda _: nullcontext()
    "Lets the platform deliver to the gateway at an address, where it does."
    answers: Callable[[], Awaitable[Answers]]
    "Returns what each chat was told, oldest first, a repeat with its line above it."
    seen: Callable[[str], Sequence[Seen]]
    "Returns the messages of the bot as people see them in a chat; of real servers none."


def text_of(number: int) -> str:
    """Return what somebody writes as the message of this number in their chat."""
    return f"message {number}"


@asynccontextmanager
async def open_telegram(chats: int) -> AsyncGenerator[World]:
    """Run the pretended Bot API."""
    async with open_telegram_api() as api:
        places = [str(2000 + number) for number in range(chats)]
        for place in places:
            api.chat(int(place))

        async def write(chat: str, number: int) -> None:
            api.say(text_of(number), chat=int(chat))

        async def answers() -> Answers:
            told: dict[str, list[str]] = {}
            for call in api.sent("sendMessage"):
                told.setdefault(str(call.params["chat_id"]), []).append(call.result["text"])
            return told

        def seen(chat: str) -> Sequence[Seen]:
            sent = (c.result for c in api.sent("sendMessage") if str(c.params["chat_id"]) == chat)
            return [("plain", _telegram_text(message)) for message in sent]

        yield World(
            channel="telegram",
            section={"bot_token": TELEGRAM_TOKEN, "api_base": api.url},
            chats=places,
            write=write,
            answers=answers,
            seen=seen,
        )


def _telegram_text(message: Mapping[str, Any]) -> str:
    addresses = [each["url"] for each in message.get("entities", ()) if "url" in each]
    return " ".join((message["text"], *addresses))


@asynccontextmanager
async def open_discord(chats: int) -> AsyncGenerator[World]:
    """Run the pretended Discord."""
    async with open_discord_api() as api:
        people = {}
        for number in range(chats):
            person = api.world.add_user(f"person{number}")
            people[api.world.dm(person)] = person

        async def write(chat: str, number: int) -> None:
            await api.says(text_of(number), author=people[chat], channel=chat)

        async def answers() -> Answers:
            return {chat: [each["content"] for each in api.said(chat)] for chat in people}

        yield World(
            channel="discord",
            section=_discord_section(api),
            chats=list(people),
            write=write,
            answers=answers,
            seen=lambda chat: [("discord", each["content"]) for each in api.said(chat)],
        )


def _discord_section(api: DiscordApi) -> Section:
    return {"bot_token": DISCORD_TOKEN, "api_base": api.base, "gateway_url": api.gateway}


@asynccontextmanager
async def open_slack(chats: int) -> AsyncGenerator[World]:
    """Run the pretended workspace, by Socket Mode."""
    async with open_slack_api() as api:
        places = [api.add_channel(f"D{number:08d}", ANN, name="") for number in range(chats)]

        async def write(chat: str, number: int) -> None:
            await api.say(chat, text_of(number))

        async def answers() -> Answers:
            return {chat: api.shown(chat) for chat in places}

        yield World(
            channel="slack",
            section={
                "bot_token": BOT_TOKEN,
                "app_token": APP_TOKEN,
                "api_base": f"{api.url}/api",
            },
            chats=places,
            write=write,
            answers=answers,
            seen=lambda chat: [
                _slack_text(raw)
                for raw in api.channels[chat]["messages"].values()
                if raw["user"] == SLACK_BOT
            ],
        )


def _slack_text(message: Mapping[str, Any]) -> Seen:
    block = message["blocks"][0]
    if block["type"] == "markdown":
        return "markdown", block["text"]
    return "plain", block["elements"][0]["elements"][0]["text"]


@asynccontextmanager
async def open_matrix(chats: int) -> AsyncGenerator[World]:
    """Run the pretended homeserver, with plain rooms of two."""
    async with open_matrix_api() as api:
        bot, token = api.add_user("bot", device="BENCH")
        people = {}
        for number in range(chats):
            room_id = f"!chat{number}:{real_matrix.NAME}"
            people[room_id], _ = api.add_user(f"person{number}")
            api.rooms[room_id] = Room()
            for user in (people[room_id], bot):
                api.member(room_id, user, "join")

        async def write(chat: str, number: int) -> None:
            content = {"msgtype": "m.text", "body": text_of(number)}
            api.say(chat, people[chat], "m.room.message", content)

        async def answers() -> Answers:
            told: dict[str, list[str]] = {}
            for room_id, event in api.events():
                if event["sender"] == bot and event["type"] == "m.room.message":
                    told.setdefault(room_id, []).append(event["content"]["body"])
            return told

        def seen(chat: str) -> Sequence[Seen]:
            said = [event for room_id, event in api.events() if room_id == chat]
            return [_matrix_text(event["content"]) for event in said if event["sender"] == bot]

        yield World(
            channel="matrix",
            section={"access_token": token, "homeserver": api.url, "encryption": False},
            chats=list(people),
            write=write,
            answers=answers,
            seen=seen,
        )


def _matrix_text(content: Mapping[str, Any]) -> Seen:
    if "formatted_body" in content:
        return "html", content["formatted_body"]
    return "plain", content.get("body", "")


@asynccontextmanager
async def open_synapse(chats: int) -> AsyncGenerator[World]:
    """Run a real Synapse, with plain rooms of two: the bot, and one person in all of them."""
    if not real_matrix.PYTHON.exists():
        message = "no Synapse here: `make synapse` installs one"
        raise SystemExit(message)
    with tempfile.TemporaryDirectory(prefix="synapse-") as folder:
        server = real_matrix.Synapse(Path(folder), free_port(), has_limits=False)
        await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                made = [await server.register(name, "pw") for name in ("bot", "ann")]
                bot, ann = (
                    Person(session, server.url, each["user_id"], each["access_token"])
                    for each in made
                )
                places = [await ann.create_room(bot.user) for _ in range(chats)]
                for room_id in places:
                    await bot.join(room_id)
                told = _Told(ann, bot.user)
                await told.answers()

                async def write(chat: str, number: int) -> None:
                    await ann.write(chat, text_of(number))

                yield World(
                    channel="matrix",
                    section={
                        "access_token": bot.token,
                        "homeserver": server.url,
                        "encryption": False,
                    },
                    chats=places,
                    write=write,
                    answers=told.answers,
                    seen=lambda _chat: (),
                )
        finally:
            await server.kill()


class _Told:
    """What somebody sees of a bot, followed by `/sync`: asking for all again takes too long."""

    def __init__(self, person: Person, bot: str) -> None:
        self._person, self._bot = person, bot
        self._since = ""
        self._told: dict[str, list[str]] = {}

    async def answers(self) -> Answers:
        """Return what each room was told."""
        query = {"filter": '{"room":{"timeline":{"limit":1000}}}', "timeout": "0"}
        if self._since:
            query["since"] = self._since
        found = await self._person.ask("GET", "/sync", query=query)
        self._since = found["next_batch"]
        for room_id, room in found.get("rooms", {}).get("join", {}).items():
            assert not room["timeline"].get("limited") or not self._told
            for event in room["timeline"]["events"]:
                if event["sender"] == self._bot and event["type"] == "m.room.message":
                    self._told.setdefault(room_id, []).append(event["content"]["body"])
        return self._told


@asynccontextmanager
async def open_whatsapp(chats: int) -> AsyncGenerator[World]:
    """Run the pretended Cloud API, which delivers in no order what it could not deliver at once."""
    async with open_whatsapp_api() as api:
        people = [f"4915{number:08d}" for number in range(chats)]
        last: dict[str, int] = {}

        async def write(chat: str, number: int) -> None:
            # Meta tells whole seconds, and nobody types two messages in one.
            now = int(SystemClock().now().timestamp())
            last[chat] = max(now, last.get(chat, 0) + 1)
            await api.say(text_of(number), chat, timestamp=str(last[chat]))

        async def answers() -> Answers:
            told: dict[str, list[str]] = {}
            for each in api.sent:
                told.setdefault(each["to"], []).append(each["text"]["body"])
            return told

        yield World(
            channel="whatsapp",
            section={
                "phone_number_id": NUMBER_ID,
                "token": WHATSAPP_TOKEN,
                "app_secret": APP_SECRET,
                "verify_token": VERIFY_TOKEN,
                "api_base": f"{api.url}/v25.0",
            },
            chats=people,
            write=write,
            deliveries=lambda url: _delivering(api, url),
            answers=answers,
            seen=lambda chat: [("plain", text) for text in api.shown(chat)],
        )


@asynccontextmanager
async def _delivering(api: WhatsAppApi, url: str) -> AsyncGenerator[None]:
    # Meta waits for no other delivery before it begins one.
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as client:

        async def deliver(headers: Mapping[str, str], body: bytes) -> int:
            path = "/channels/whatsapp/webhook"
            try:
                answer = await client.post(path, content=body, headers=dict(headers))
            except httpx2.HTTPError:
                return 0
            return answer.status_code

        api.deliver = deliver
        try:
            yield
        finally:
            api.deliver = None


@asynccontextmanager
async def open_email(chats: int) -> AsyncGenerator[World]:
    """Run the pretended mail servers."""
    async with open_imap_server() as imap, open_smtp_server() as smtp:
        imap.add_account(BOT, "pw")

        async def deliver(raw: bytes) -> None:
            imap.deliver(BOT, raw)

        yield _mailbox(smtp, imap.port, BOT, deliver, chats)


@asynccontextmanager
async def open_dovecot(chats: int) -> AsyncGenerator[World]:
    """Run a real Dovecot; mail goes out to aiosmtpd."""
    if not DOVECOT:
        message = "no Dovecot here: `make dovecot` installs one"
        raise SystemExit(message)
    with tempfile.TemporaryDirectory(prefix="dovecot-") as folder:
        server, user = Dovecot(Path(folder)), "bot0@everturn.test"
        await server.start()
        try:
            async with open_smtp_server() as smtp:

                async def deliver(raw: bytes) -> None:
                    await server.deliver(user, raw)

                yield _mailbox(smtp, server.imap_port, user, deliver, chats)
        finally:
            await server.stop()


def _mailbox(
    smtp: SmtpServer,
    port: int,
    user: str,
    deliver: Callable[[bytes], Awaitable[None]],
    chats: int,
) -> World:
    """Return a mailbox to which many people write, each in a thread of their own."""
    people = [f"person{number}@example.org" for number in range(chats)]
    here = {"host": "127.0.0.1", "security": "none"}

    async def write(chat: str, number: int) -> None:
        root = f"<thread-{chat}>"
        thread = {"Message_ID": root} if not number else {"References": root}
        await deliver(mail_from(chat, text_of(number), **thread).as_bytes())

    told: dict[str, list[str]] = {}
    read = 0

    async def answers() -> Answers:
        nonlocal read
        new, read = smtp.taken[read:], len(smtp.taken)
        for chat, raw in new:
            told.setdefault(chat, []).append(_answer(plain_text_of(read_mail(raw))))
        return told

    return World(
        channel="email",
        section={
            "address": BOT,
            "user": user,
            "password": "pw",
            "authserv_id": SERVER,
            "mails_per_hour": 10_000,
            "imap": {**here, "port": port},
            "smtp": {**here, "port": smtp.port},
        },
        chats=people,
        write=write,
        answers=answers,
        seen=lambda chat: list(map(_mail_text, smtp.mails(chat))),
    )


def _mail_text(mail: EmailMessage) -> Seen:
    body = mail.get_body(("html",))
    return ("plain", plain_text_of(mail)) if body is None else ("html", body.get_content())


def _answer(text: str) -> str:
    line = f"{REPEAT}\n" if text.startswith(REPEAT) else ""
    return line + answer_in(text)


WORLDS: Mapping[str, Callable[[int], AbstractAsyncContextManager[World]]] = {
    "telegram": open_telegram,
    "discord": open_discord,
    "slack": open_slack,
    "matrix": open_matrix,
    "synapse": open_synapse,
    "whatsapp": open_whatsapp,
    "email": open_email,
    "dovecot": open_dovecot,
}
"By what is named on the command line, how each is run with so many chats."
