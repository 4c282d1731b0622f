"""Telegram's Bot API on loopback, as far as the channel uses it; as strict as the real one.

    async with open_telegram_api() as telegram:
        telegram.say("hello")           # a person writes; getUpdates hands it out
        ...                             # an adapter with api_base=telegram.url
        assert telegram.sent("sendMessage")[0].result["text"] == "hello"

Rules and wording of errors are those of https://core.telegram.org/bots/api (read 2026-11);
`tests/integration/test_telegram_api.py` holds the two against each other.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

import anyio
from aiohttp import web
from support.patience import WAIT_S
from support.ports import free_port

from everturn_gateway.clock import SystemClock

Json: TypeAlias = dict[str, Any]
_Api = TypeVar("_Api", bound="TelegramApi")

TOKEN: Final = "4242424242:AAHtest-token_of-thirty-five-letters"
BOT: Final = "everturn_bot"
BOT_ID: Final = 4242424242
ANN: Final = 1001
TEXT_UNITS, CAPTION_UNITS, ANSWER_UNITS = 4096, 1024, 200
FILE_BYTES: Final = 20 * 1024 * 1024
STARTED_S: Final = int(SystemClock().now().timestamp())
"The platform's clock, which moves a second for each message. Gateways pass over old messages."


class ApiError(Exception):
    """A request that is refused.

    `page` is what a gateway before the Bot API answers in its place, as HTML.
    """

    def __init__(
        self, code: int, description: str, *, page: str = "", **parameters: object
    ) -> None:
        self.code, self.description, self.parameters = code, description, parameters
        self.page = page
        super().__init__(description)


@dataclass(slots=True, kw_only=True)
class Call:
    """One request, and what became of it."""

    method: str
    params: Json
    files: Mapping[str, tuple[str, bytes]]
    status: int = 200
    result: Any = None


@dataclass(slots=True, kw_only=True)
class Fault:
    """What is to go wrong with the next requests of a method."""

    method: str
    times: int
    error: ApiError | None = None
    "What is answered; None = the connection is cut once the request was carried out."
    carried_out: bool = False
    "Whether the request is carried out all the same."


@dataclass(slots=True, kw_only=True)
class Hold:
    """A request that waits in the server, once it came."""

    picks: Callable[[Call], object]
    carried_out: bool
    "Whether it waits for its answer only."
    reached: anyio.Event = field(default_factory=anyio.Event)
    released: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self) -> None:
        """Wait until it came."""
        with anyio.fail_after(WAIT_S):
            await self.reached.wait()


@dataclass(slots=True)
class _Poll:
    """A getUpdates that waits."""

    changed: anyio.Event = field(default_factory=anyio.Event)
    conflict: ApiError | None = None
    is_over: bool = False


def units(text: str) -> int:
    """Return a length as Telegram counts it."""
    return len(text.encode("utf-16-le")) // 2


class TelegramApi:
    """The server. Everything is in memory, and may be looked at and changed."""

    def __init__(self) -> None:
        self.url = ""
        self.token = TOKEN
        self.me: Json = {
            "id": BOT_ID,
            "is_bot": True,
            "first_name": "Everturn",
            "username": BOT,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }
        self.calls: list[Call] = []
        self.updates: list[Json] = []
        self.raw: dict[int, tuple[bytes, bytes]] = {}
        "By update: bytes of its JSON, and what stands there instead."
        self.messages: dict[tuple[int, int], Json] = {}
        self.chats: dict[int, Json] = {}
        self.blocked: set[int] = set()
        self.topics_gone: set[int] = set()
        self.moved: dict[int, int] = {}
        "Groups that became supergroups, and the ids of those."
        self.drafts: list[tuple[int, int, str]] = []
        self.files: dict[str, bytes] = {}
        self.menus: dict[str, list[Json]] = {}
        "By language; empty = for everybody else."
        self.webhook: Json = {}
        self.answered: set[str] = set()
        "Ids of clicks that were answered."
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []
        self._next_update, self._next_message = 1000, 1
        self._poll: _Poll | None = None
        self.runner: web.AppRunner | None = None
        self._changed = anyio.Event()

    # --- what people do ---

    def chat(self, chat_id: int, **fields: object) -> Json:
        """Return a chat, made at its first use; ids below 0 are groups."""
        kind: Json = {"type": "private", "first_name": "Ann"}
        if chat_id < 0:
            kind = {"type": "supergroup", "title": "Friends"}
        return self.chats.setdefault(chat_id, {"id": chat_id, **kind, **fields})

    def message(self, text: str = "", *, chat: int = ANN, **fields: object) -> Json:
        """Return a message of Ann, with the entities that Telegram finds by itself."""
        message_id = self._number()
        message: Json = {
            "message_id": message_id,
            "date": STARTED_S + message_id,
            "chat": self.chat(chat),
            "from": {"id": ANN, "is_bot": False, "first_name": "Ann"},
        }
        if text:
            message |= {"text": text, "entities": _found(text)}
        message |= fields
        self.messages[chat, message_id] = message
        return message

    def say(self, text: str = "", *, chat: int = ANN, **fields: object) -> Json:
        """Have Ann write something."""
        message = self.message(text, chat=chat, **fields)
        self.push({"message": message})
        return message

    def click(self, message: Json, data: str, *, who: int = ANN) -> None:
        """Have somebody click a button."""
        query = {
            "id": f"query-{self._next_update}",
            "from": {"id": who, "is_bot": False, "first_name": "Ann" if who == ANN else "Bob"},
            "message": message,
            "chat_instance": "1",
            "data": data,
        }
        self.push({"callback_query": query})

    def migrate(self, old: int, new: int, *, says: Sequence[int] | None = None) -> None:
        """Make a group a supergroup, which begins its messages anew.

        Args:
            old: The group.
            new: What its supergroup is called.
            says: The chats whose service message is handed out, in this order; by default both.
        """
        self.moved[old] = new
        self.chat(new, title=self.chat(old).get("title", ""))
        fields: dict[int, Json] = {
            old: {"migrate_to_chat_id": new},
            new: {"migrate_from_chat_id": old},
        }
        for chat in (old, new) if says is None else says:
            self.push({"message": self.message(chat=chat, **fields[chat])})

    def push(self, update: Json) -> int:
        """Add an update of any kind; return its id."""
        number = self._next_update
        self._next_update += 1
        self.updates.append({"update_id": number, **update})
        self._wake()
        return number

    # --- what goes wrong ---

    def fail(
        self,
        method: str,
        code: int,
        description: str,
        *,
        times: int = 1,
        carried_out: bool = False,
        page: str = "",
        **parameters: object,
    ) -> None:
        """Have the next requests of a method refused, or carried out and answered so.

        `page` is what a gateway before the Bot API answers in its place.
        """
        error = ApiError(code, description, page=page, **parameters)
        fault = Fault(method=method, times=times, error=error, carried_out=carried_out)
        self._faults.append(fault)

    def cut(self, method: str, *, times: int = 1) -> None:
        """Carry the next requests of a method out, and cut the connection instead of answering."""
        self._faults.append(Fault(method=method, times=times))

    def hold(self, picks: Callable[[Call], object], *, carried_out: bool = False) -> Hold:
        """Keep the next request that `picks` is true of waiting, before or after it has effect."""
        hold = Hold(picks=picks, carried_out=carried_out)
        self._holds.append(hold)
        return hold

    # --- what tests ask ---

    def sent(self, method: str = "sendMessage") -> list[Call]:
        """Return the requests of a method that were carried out."""
        return [call for call in self.calls if call.method == method and call.status == 200]

    def asked(self, method: str) -> list[Call]:
        """Return the requests of a method, whatever became of them."""
        return [call for call in self.calls if call.method == method]

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, looked at after each request and each update."""
        with anyio.fail_after(WAIT_S):
            while not is_so():
                self._changed = anyio.Event()
                await self._changed.wait()

    @property
    def has_poll(self) -> bool:
        """Whether somebody waits for updates."""
        return self._poll is not None

    # --- HTTP ---

    async def open(self) -> None:
        """Listen; where it did before, again at the same address."""
        assert self.runner is not None
        await web.TCPSite(self.runner, "127.0.0.1", urlsplit(self.url).port or free_port()).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def close(self) -> None:
        """Refuse new connections, as in an outage."""
        assert self.runner is not None
        for environment in [*self.runner.sites]:
            await environment.stop()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request of a method."""
        params, files = await _read(request)
        call = Call(method=request.match_info["method"], params=params, files=files)
        self.calls.append(call)
        is_cut = False
        try:
            if request.match_info["token"] != self.token:
                raise ApiError(401, "Unauthorized")  # noqa: TRY301 - answered like the others
            fault = self._fault(call.method)
            if fault is not None and fault.error is not None and not fault.carried_out:
                raise fault.error
            is_cut = fault is not None and fault.error is None
            await self._wait(call, carried_out=False)
            call.result = await self._carry_out(call)
            await self._wait(call, carried_out=True)
            if fault is not None and fault.error is not None:
                raise fault.error
            body: Json = {"ok": True, "result": call.result}
        except ApiError as error:
            call.status = error.code
            if error.page:
                self._wake()
                return web.Response(text=error.page, status=error.code, content_type="text/html")
            body = {"ok": False, "error_code": error.code, "description": error.description}
            if error.parameters:
                body["parameters"] = error.parameters
        self._wake()
        if is_cut and request.transport is not None:
            request.transport.close()
        data = json.dumps(body).encode()
        if call.method == "getUpdates" and isinstance(call.result, list):
            for update in call.result:
                if replaced := self.raw.get(update["update_id"]):
                    data = data.replace(*replaced)
        return web.Response(body=data, status=call.status, content_type="application/json")

    async def hand_out(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for a file."""
        data = self.files.get(request.match_info["path"])
        if request.match_info["token"] != self.token or data is None:
            return web.json_response({"ok": False, "error_code": 404}, status=404)
        return web.Response(body=data)

    def _fault(self, method: str) -> Fault | None:
        fault = next((f for f in self._faults if f.method == method and f.times > 0), None)
        if fault is not None:
            fault.times -= 1
        return fault

    async def _wait(self, call: Call, *, carried_out: bool) -> None:
        for hold in self._holds:
            if hold.carried_out == carried_out and hold.picks(call):
                self._holds.remove(hold)
                hold.reached.set()
                self._wake()
                await hold.released.wait()
                return

    @property
    def commands(self) -> list[Json]:
        """The menu that is shown to whoever uses Telegram in a language without one."""
        return self.menus.get("", [])

    async def _carry_out(self, call: Call) -> object:
        p = call.params
        match call.method:
            case "getUpdates":
                return await self._get_updates(p)
            case "getMe":
                return self.me
            case "getWebhookInfo":
                empty = {"url": "", "has_custom_certificate": False}
                return {**empty, **self.webhook, "pending_update_count": len(self.updates)}
            case "setWebhook" | "deleteWebhook":
                return self._set_webhook(p)
            case "getMyCommands":
                return self.menus.get(p.get("language_code", ""), [])
            case "setMyCommands":
                self.menus[p.get("language_code", "")] = p["commands"]
            case "sendMessage":
                return self._send(p, text=_text(p, "text", TEXT_UNITS), entities=_entities(p))
            case "sendDocument" | "sendPhoto" | "sendVoice":
                return self._send_file(call)
            case "sendMediaGroup":
                return self._send_album(call)
            case "editMessageText":
                return self._edit(p)
            case "sendMessageDraft":
                self._draft(p)
            case "sendChatAction" | "setMessageReaction":
                self._target(p)
            case "answerCallbackQuery":
                self._answer_click(p)
            case "getFile":
                return self._get_file(p)
            case _:
                raise ApiError(404, "Not Found")
        return True

    # --- updates ---

    async def _get_updates(self, p: Json) -> list[Json]:
        if self.webhook.get("url"):
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first",
            )
        offset, limit = int(p.get("offset", 0)), min(max(int(p.get("limit", 100)), 1), 100)
        if offset > 0:
            self.updates = [u for u in self.updates if u["update_id"] >= offset]
        elif offset < 0:
            self.updates = self.updates[offset:]
        self._conflict("terminated by other getUpdates request; make sure that only one bot ")
        poll = self._poll = _Poll()
        self._changed.set()
        try:
            with anyio.move_on_after(float(p.get("timeout", 0))):
                while not (self._from(offset) or poll.conflict or poll.is_over):
                    poll.changed = anyio.Event()
                    await poll.changed.wait()
        finally:
            if self._poll is poll:
                self._poll = None
        if poll.conflict is not None:
            raise poll.conflict
        return self._from(offset)[:limit]

    def _from(self, offset: int) -> list[Json]:
        return [update for update in self.updates if update["update_id"] >= offset]

    def _set_webhook(self, p: Json) -> bool:
        url = str(p.get("url", ""))
        if url and not url.startswith("https://"):
            raise ApiError(
                400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook"
            )
        self.webhook = {"url": url, **{k: p[k] for k in ("max_connections",) if k in p}}
        self.webhook_secret = str(p.get("secret_token", ""))
        if p.get("drop_pending_updates") == "true":
            self.updates.clear()
        self._conflict("terminated by setWebhook request")
        return True

    def end_poll(self, *, next_update: int) -> None:
        """End the request that waits, with nothing, and number updates anew from there."""
        self._next_update = next_update
        if self._poll is not None:
            self._poll.is_over = True
            self._poll.changed.set()

    def _conflict(self, why: str) -> None:
        """End the request that waits: the older one loses."""
        if self._poll is not None:
            self._poll.conflict = ApiError(409, f"Conflict: {why}")
            self._poll.changed.set()

    def _wake(self) -> None:
        self._changed.set()
        if self._poll is not None:
            self._poll.changed.set()

    # --- messages ---

    def _number(self) -> int:
        self._next_message += 1
        return self._next_message

    def _target(self, p: Json) -> Json:
        chat_id = int(p["chat_id"])
        chat = self.chats.get(chat_id)
        if chat is None:
            raise ApiError(400, "Bad Request: chat not found")
        if chat_id in self.moved:
            why = "Bad Request: group chat was upgraded to a supergroup chat"
            raise ApiError(400, why, migrate_to_chat_id=self.moved[chat_id])
        if chat_id in self.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        topic = int(p.get("message_thread_id", 0))
        if topic and (topic in self.topics_gone or not chat.get("is_forum")):
            raise ApiError(400, "Bad Request: message thread not found")
        return chat

    def _send(self, p: Json, **content: object) -> Json:
        chat = self._target(p)
        message: Json = {
            "message_id": self._number(),
            "date": STARTED_S,
            "chat": chat,
            "from": self.me,
            **content,
        }
        if "message_thread_id" in p:
            topic = int(p["message_thread_id"])
            message |= {"message_thread_id": topic, "is_topic_message": True}
        if "reply_markup" in p:
            message["reply_markup"] = p["reply_markup"]
        if reply := p.get("reply_parameters"):
            replied = self.messages.get((chat["id"], reply["message_id"]))
            if replied is None and not reply.get("allow_sending_without_reply"):
                raise ApiError(400, "Bad Request: message to be replied not found")
            message |= {"reply_to_message": replied} if replied else {}
        self.messages[chat["id"], message["message_id"]] = message
        return message

    def _send_file(self, call: Call) -> Json:
        kind = call.method.removeprefix("send").lower()
        name, data = call.files[str(call.params[kind]).removeprefix("attach://")]
        self.files[f"sent/{name}"] = data
        held: Any = {"file_id": f"sent/{name}", "file_unique_id": name, "file_size": len(data)}
        if kind == "photo":
            held = [{**held, "width": 1, "height": 1}]
        caption = call.params.get("caption", "")
        if units(caption) > CAPTION_UNITS:
            raise ApiError(400, "Bad Request: message caption is too long")
        return self._send(call.params, **{kind: held}, **({"caption": caption} if caption else {}))

    def _send_album(self, call: Call) -> list[Json]:
        media: list[Json] = call.params["media"]
        if not 2 <= len(media) <= 10:
            raise ApiError(400, "Bad Request: there must be from 2 to 10 messages in the group")
        if len({each["type"] for each in media}) > 1:
            raise ApiError(400, "Bad Request: document can't be mixed with other media types")
        sent: list[Json] = []
        for each in media:
            name, data = call.files[each["media"].removeprefix("attach://")]
            self.files[f"sent/{name}"] = data
            held: Any = {"file_id": f"sent/{name}", "file_unique_id": name}
            if each["type"] == "photo":
                held = [{**held, "width": 1, "height": 1}]
            caption = {"caption": each["caption"]} if each.get("caption") else {}
            content = {each["type"]: held, "media_group_id": "1", **caption}
            sent.append(self._send(call.params, **content))
        return sent

    def _edit(self, p: Json) -> Json:
        chat = self._target(p)
        message = self.messages.get((chat["id"], int(p["message_id"])))
        if message is None:
            raise ApiError(400, "Bad Request: message to edit not found")
        if message["from"]["id"] != self.me["id"]:
            raise ApiError(400, "Bad Request: message can't be edited")
        after = {
            "text": _text(p, "text", TEXT_UNITS),
            "entities": _entities(p),
            "reply_markup": p.get("reply_markup"),
        }
        if all(message.get(name) == value for name, value in after.items()):
            raise ApiError(
                400,
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message",
            )
        message |= after
        return {name: value for name, value in message.items() if value is not None}

    def _draft(self, p: Json) -> None:
        chat = self._target(p)
        if chat["type"] != "private":
            raise ApiError(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        if not int(p["draft_id"]):
            raise ApiError(400, "Bad Request: draft_id must be non-zero")
        self.drafts.append((chat["id"], int(p["draft_id"]), _text(p, "text", TEXT_UNITS)))

    def _answer_click(self, p: Json) -> None:
        query = str(p["callback_query_id"])
        if query in self.answered or not query.startswith("query-"):
            raise ApiError(
                400,
                "Bad Request: query is too old and response timeout expired or query ID is invalid",
            )
        if units(p.get("text", "")) > ANSWER_UNITS:
            raise ApiError(400, "Bad Request: MESSAGE_TOO_LONG")
        self.answered.add(query)

    def _get_file(self, p: Json) -> Json:
        path = str(p["file_id"])
        data = self.files.get(path)
        if data is None:
            raise ApiError(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if len(data) > FILE_BYTES:
            raise ApiError(400, "Bad Request: file is too big")
        return {"file_id": path, "file_unique_id": path, "file_size": len(data), "file_path": path}


@asynccontextmanager
async def serve_telegram_api(api: _Api) -> AsyncGenerator[_Api]:
    """Serve this Bot API on a free port of loopback while the block runs."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/bot{token}/{method}", api.handle)
    app.router.add_get("/file/bot{token}/{path:.+}", api.hand_out)
    runner = api.runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await api.open()
        yield api
    finally:
        await runner.cleanup()


@asynccontextmanager
async def open_telegram_api() -> AsyncGenerator[TelegramApi]:
    """Serve a Bot API of its own on a free port of loopback while the block runs."""
    async with serve_telegram_api(TelegramApi()) as api:
        yield api


async def _read(request: web.Request) -> tuple[Json, dict[str, tuple[str, bytes]]]:
    """Return the parameters of a request, objects among them as such, and its files."""
    params: Json = {}
    files: dict[str, tuple[str, bytes]] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            files[name] = (value.filename, value.file.read())
        elif isinstance(value, str) and value[:1] in {"[", "{"} and name not in {"text", "caption"}:
            params[name] = json.loads(value)
        else:
            params[name] = value
    return params, files


def _text(p: Json, name: str, limit_units: int) -> str:
    text = str(p.get(name, ""))
    if not text.strip():
        raise ApiError(400, "Bad Request: message text is empty")
    if units(text) > limit_units:
        raise ApiError(400, "Bad Request: message is too long")
    return text


def _entities(p: Json) -> list[Json]:
    entities: list[Json] = p.get("entities", [])
    end = units(str(p.get("text", "")))
    for entity in entities:
        if entity["length"] < 1 or entity["offset"] + entity["length"] > end:
            raise ApiError(400, "Bad Request: can't parse entities: ENTITY_BOUNDS_INVALID")
    if (
        len(entities) > 100
    ):  # the real one leaves the rest out without a word: no test may rely on it
        raise ApiError(400, "Bad Request: can't parse entities: too many entities")
    return entities


def _found(text: str) -> list[Json]:
    """Return the commands and mentions of a text, as Telegram marks them."""
    entities: list[Json] = []
    at = 0
    for word in text.split():
        at = text.index(word, at)
        kind = {"/": "bot_command", "@": "mention"}.get(word[0])
        bare = word.rstrip(",.:!?")
        if kind and len(bare) > 1:
            entities.append({"type": kind, "offset": units(text[:at]), "length": units(bare)})
        at += len(word)
    return entities
