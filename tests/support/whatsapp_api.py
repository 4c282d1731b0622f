"""The Cloud API of WhatsApp as Meta's documentation describes it, on loopback.

Sources, read 2026-11-27, under https://developers.facebook.com/documentation/business-messaging/whatsapp:
webhooks/create-webhook-endpoint (signature, challenge), webhooks/reference/messages and the pages
below it (`messages`, `statuses`, `edit`, `revoke`, `system`), messages/... (what is sent, 1,024
characters above choices, 3 buttons of 20, lists of 10 rows of 24), business-phone-numbers/media (an
id, then an address of five minutes that wants the token), typing-indicators, support/error-codes,
business-scoped-user-ids (`recipient`, `user_id`); and the limits of fields in
https://github.com/facebook/openapi (business-messaging-api_v23.0.yaml).
"""

from __future__ import annotations

import hmac
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from typing import Any, Final, NoReturn, TypeAlias

import anyio
from aiohttp import web
from anyio.abc import TaskGroup

from everturn_gateway.clock import SystemClock

Json: TypeAlias = dict[str, Any]
Deliver: TypeAlias = Callable[[Mapping[str, str], bytes], Awaitable[int]]
"Takes headers and body of a delivery, and returns the status."
NUMBER_ID, ACCOUNT_ID, NUMBER = "106540352242922", "102290129340398", "15550783881"
ANN, BOB, USER_ID = "16505551234", "16505550000", "US.13491208655302741918"
GROUP = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"
TOKEN, VERIFY_TOKEN = "EAAJB-of-the-system-user", "chosen-by-the-owner"
APP_SECRET = "0123456789abcdef0123456789abcdef"
WINDOW_S: Final = 24 * 3600.0
_NAMES: Final = {ANN: "Ann", BOB: "Bob"}
_BODY_MAX, _CHOICE_MAX = 4_096, 1_024


class CloudError(Exception):
    """A request is refused."""

    def __init__(self, code: int, words: str, *, status: int = 400) -> None:
        super().__init__(words)
        self.code, self.status = code, status


def refuse(code: int, words: str = "refused", *, status: int = 400) -> NoReturn:
    """Refuse a request."""
    raise CloudError(code, words, status=status)


class WhatsAppApi:
    """One number; `open_whatsapp_api` runs it."""

    def __init__(self) -> None:
        self.tasks: TaskGroup
        self.url = ""
        self.deliver: Deliver | None = None
        "None = nobody is there: what is to be delivered waits, and comes again."
        self.pending: dict[int, Json] = {}
        "What was not answered with 200, by its number."
        self.repeats_after_s = 0.2
        self.sent: list[Json] = []
        "Messages of the bot, oldest first, with the `id` that they got."
        self.marks: list[Json] = []
        "Receipts and typing indicators."
        self.reactions: dict[str, str] = {}
        "By message, the emoji that the bot put there."
        self.media: dict[str, Json] = {}
        self.calls: list[str] = []
        self.revoked = False
        self.gone: set[str] = set()
        "Who cannot be reached."
        self.window_s = WINDOW_S
        self.has_statuses = True
        self.accepted = 0
        "Messages and reactions that were taken, whether or not they go out."
        self.cut_after_message = False
        "Whether the next message is taken and its answer is lost."
        self.refusals: deque[tuple[int, int]] = deque()
        "Codes and HTTP statuses of what is sent next; 0 = no code."
        self.failures: deque[int] = deque()
        "Codes with which what is sent next fails after it was taken; 0 = it does not."
        self._heard: dict[str, float] = {}
        self._under_way: set[int] = set()
        "Deliveries whose answers are awaited: these do not come a second time beside that."
        self._numbers = count(1)

    # --- what people do ---

    async def say(self, text: str, who: str = ANN, **fields: Any) -> str:
        """Let somebody write; return the id."""
        return await self.write({"type": "text", "text": {"body": text}}, who, **fields)

    async def write(self, content: Json, who: str = ANN, **fields: Any) -> str:
        """Let somebody send something; return the id."""
        raw = self.message(content, who, **fields)
        await self.push([raw])
        return str(raw["id"])

    def message(self, content: Json, who: str = ANN, **fields: Any) -> Json:
        """Return a message as it is delivered; `who` may be a number or a user id."""
        wamid = f"wamid.{next(self._numbers):08d}"
        at = _now()
        named = {"from_user_id": who} if "." in who else {"from": who}
        self._heard[fields.get("group_id", who)] = time.monotonic()
        return {**named, "id": wamid, "timestamp": at, **content, **fields}

    async def push(self, messages: Sequence[Json], *, number: str = NUMBER_ID) -> None:
        """Deliver messages in one delivery."""
        people = list(dict.fromkeys(m.get("from") or m["from_user_id"] for m in messages))
        await self.deliver_value(
            {"contacts": [_contact(each) for each in people], "messages": [*messages]},
            number=number,
        )

    async def share(self, kind: str, data: bytes, who: str = ANN, **fields: Any) -> str:
        """Let somebody send a file; return the id of the message."""
        media_id = self.add_media(data, fields.get("mime_type", "application/pdf"))
        return await self.write({"type": kind, kind: {"id": media_id, **fields}}, who)

    async def choose(self, message: Json, number: int, who: str = ANN) -> str:
        """Let somebody choose one of the choices below a message of the bot."""
        asked = message["interactive"]
        if asked["type"] == "button":
            chosen: Json = dict(asked["action"]["buttons"][number]["reply"])
            answer = {"type": "button_reply", "button_reply": chosen}
        else:
            chosen = dict(asked["action"]["sections"][0]["rows"][number])
            answer = {"type": "list_reply", "list_reply": chosen}
        context = {"from": NUMBER, "id": message["id"]}
        return await self.write(
            {"type": "interactive", "interactive": answer}, who, context=context
        )

    def shown(self, chat: str = "") -> list[str]:
        """Return what people see of the bot's messages, oldest first; empty = in all chats."""
        return [words_of(each) for each in self.sent if chat in {"", _to(each)}]

    def sent_files(self) -> list[bytes]:
        """Return the files that the bot sent."""
        found = [each[each["type"]].get("id", "") for each in self.sent]
        return [self.media[media_id]["data"] for media_id in found if media_id]

    def unconfirmed(self, who: str) -> int:
        """Return how many messages of somebody were not taken."""
        return sum(
            message.get("from") == who
            for value in self.pending.values()
            for message in value.get("messages", ())
        )

    def close_window(self, who: str) -> None:
        """Let a day pass since somebody wrote."""
        self._heard[who] = time.monotonic() - WINDOW_S - 1

    # --- deliveries ---

    async def deliver_value(self, value: Json, *, number: str = NUMBER_ID) -> None:
        """Deliver something of the field `messages`, again and again until it is taken."""
        key = next(self._numbers)
        metadata = {"display_phone_number": NUMBER, "phone_number_id": number}
        self.pending[key] = {"messaging_product": "whatsapp", "metadata": metadata, **value}
        if self.deliver is not None:
            self.tasks.start_soon(self._try, key)

    async def repeat(self) -> None:
        """Deliver again what was not taken, until cancelled; Meta does so for seven days."""
        while True:
            await anyio.sleep(self.repeats_after_s)
            for key in list(self.pending):
                if self.deliver is not None:
                    self.tasks.start_soon(self._try, key)

    async def _try(self, key: int) -> None:
        value = self.pending.get(key)
        if value is None or self.deliver is None or key in self._under_way:
            return
        body = body_of(value)
        self._under_way.add(key)
        try:
            if await self.deliver(signed(body), body) == 200:
                self.pending.pop(key, None)
        finally:
            self._under_way.discard(key)

    async def tell_status(self, message: Json, kind: str, code: int = 0) -> None:
        """Deliver a status of a message of the bot."""
        status: Json = {"id": message["id"], "status": kind, "timestamp": _now()}
        to = _to(message)
        status["recipient_user_id" if "." in to else "recipient_id"] = to
        if data := message.get("biz_opaque_callback_data"):
            status["biz_opaque_callback_data"] = data
        if code:
            status["errors"] = [_error(code, f"failed with {code}")]
        await self.deliver_value({"statuses": [status]})

    # --- answering the app ---

    async def number(self, request: web.Request) -> web.StreamResponse:
        """Tell of the number."""
        if request.match_info["id"] != NUMBER_ID:
            refuse(100, "Unsupported get request. Object does not exist")
        return web.json_response(
            {
                "id": NUMBER_ID,
                "display_phone_number": "+1 555-078-3881",
                "verified_name": "Lucky Shrub",
                "quality_rating": "GREEN",
                "name_status": "APPROVED",
            }
        )

    async def post_message(self, request: web.Request) -> web.StreamResponse:
        """Take a message, or a receipt."""
        fields: Json = await request.json()
        if fields.get("messaging_product") != "whatsapp":
            refuse(100, "(#100) The parameter messaging_product is required.")
        if fields.get("status") == "read":
            self.marks.append(fields)
            return web.json_response({"success": True})
        if self.refusals:
            code, status = self.refusals.popleft()
            if not code:
                return web.Response(status=status, text="oops")
            refuse(code, f"refused with {code}", status=status)
        to = _to(fields)
        if to in self.gone:
            refuse(131026, "Message undeliverable")
        if fields["type"] == "reaction":
            reaction = fields["reaction"]
            self.reactions[reaction["message_id"]] = reaction["emoji"]
        else:
            _check(fields)
        message = {**fields, "id": f"wamid.out.{next(self._numbers):08d}"}
        await self._accept(message, to)
        if self.cut_after_message:
            self.cut_after_message = False
            assert request.transport is not None
            request.transport.abort()
        contact = {"input": to, "user_id" if "." in to else "wa_id": to}
        return web.json_response(
            {
                "messaging_product": "whatsapp",
                "contacts": [contact],
                "messages": [{"id": message["id"]}],
            }
        )

    async def _accept(self, message: Json, to: str) -> None:
        """Take a message; whether it goes out is told by its statuses."""
        self.accepted += 1
        code = self.failures.popleft() if self.failures else 0
        if time.monotonic() - self._heard.get(to, -WINDOW_S) >= WINDOW_S:
            code = 131047
        if message["type"] != "reaction" and not code:
            self.sent.append(message)
        if not self.has_statuses:
            return
        if code:
            await self.tell_status(message, "failed", code)
            return
        await self.tell_status(message, "sent")
        if message["type"] != "reaction":
            await self.tell_status(message, "delivered")

    def add_media(self, data: bytes, media_type: str) -> str:
        """Keep a file; return its id."""
        media_id = f"{next(self._numbers):015d}"
        self.media[media_id] = {"data": data, "media_type": media_type}
        return media_id

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Take a file."""
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        is_of_type = str(form.get("type", "")).startswith(file.content_type)
        if form.get("messaging_product") != "whatsapp" or not is_of_type:
            refuse(131053, "Media upload error")
        return web.json_response({"id": self.add_media(file.file.read(), str(form["type"]))})

    async def media_address(self, request: web.Request) -> web.StreamResponse:
        """Tell where a file is."""
        found = self.media.get(request.match_info["id"])
        if found is None:
            return await self.number(request)
        found["address"] = f"/download/{next(self._numbers)}"
        return web.json_response(
            {
                "messaging_product": "whatsapp",
                "url": self.url + found["address"],
                "mime_type": found["media_type"],
                "file_size": f"{len(found['data'])}",
                "id": request.match_info["id"],
            }
        )

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Give a file."""
        for each in self.media.values():
            if each.get("address") == request.path:
                return web.Response(body=each["data"], content_type="application/octet-stream")
        raise web.HTTPNotFound

    @web.middleware
    async def guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Look at the token, and answer with errors as Meta does."""
        self.calls.append(f"{request.method} {request.path}")
        try:
            if self.revoked or request.headers.get("Authorization") != f"Bearer {TOKEN}":
                refuse(190, "Error validating access token", status=401)
            return await handler(request)
        except CloudError as error:
            headers = {"Retry-After": "60"} if error.status == 429 else {}
            body = {"error": {**_error(error.code, str(error)), "type": "OAuthException"}}
            return web.json_response(body, status=error.status, headers=headers)
        except KeyError as error:
            body = {"error": _error(131008, f"Required parameter is missing: {error}")}
            return web.json_response(body, status=400)


def _now() -> str:
    return f"{int(SystemClock().now().timestamp())}"


def _error(code: int, words: str) -> Json:
    return {
        "code": code,
        "title": words,
        "message": f"(#{code}) {words}",
        "error_data": {"messaging_product": "whatsapp", "details": words},
    }


def _contact(who: str) -> Json:
    name = {"profile": {"name": _NAMES.get(who, "Sheena")}}
    return {**name, "user_id": who} if "." in who else {**name, "wa_id": who}


def _to(fields: Json) -> str:
    kind = fields["recipient_type"]
    to = str(fields.get("to") or fields["recipient"])
    is_group = not to.isdecimal() and "." not in to
    if is_group != (kind == "group"):
        refuse(131009, "recipient_type does not fit")
    return to


def _check(fields: Json) -> None:
    """Refuse what Meta refuses.

    Raises:
        CloudError: It would.
    """
    kind = fields["type"]
    content = fields[kind]
    if kind == "text":
        if not 0 < len(content["body"]) <= _BODY_MAX:
            refuse(100, "body has to have 1 to 4096 characters")
    elif kind == "interactive":
        _check_choices(fields, content)
    elif not content["id"]:
        refuse(131009, "no media")
    elif kind == "audio" and "caption" in content:
        refuse(131009, "audio has no caption")


def _check_choices(fields: Json, content: Json) -> None:
    action = content["action"]
    if fields["recipient_type"] == "group" or not 0 < len(content["body"]["text"]) <= _CHOICE_MAX:
        refuse(131009, "no such question")
    if content["type"] == "button":
        titles = [each["reply"]["title"] for each in action["buttons"]]
        ids, most, wide = [e["reply"]["id"] for e in action["buttons"]], 3, 20
    else:
        (section,) = action["sections"]
        titles, most, wide = [each["title"] for each in section["rows"]], 10, 24
        ids = [each["id"] for each in section["rows"]]
        if not 0 < len(action["button"]) <= 20:
            refuse(131009, "no such list")
        if any(len(each.get("description", "")) > 72 for each in section["rows"]):
            refuse(131009, "a description is too long")
    are_fine = all(0 < len(each) <= wide for each in titles) and all(len(i) <= 200 for i in ids)
    if not are_fine or len({*titles}) != len(titles) or len(titles) > most:
        refuse(131009, "the choices are not taken")


def words_of(message: Json) -> str:
    """Return what people read of a message of the bot."""
    kind = message["type"]
    if kind == "interactive":
        return str(message[kind]["body"]["text"])
    return str(message[kind].get("body") or message[kind].get("caption") or "")


def body_of(value: Json, field: str = "messages") -> bytes:
    """Return the body of a delivery."""
    change = {"value": value, "field": field}
    entry = {"id": ACCOUNT_ID, "changes": [change]}
    return json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()


def signed(body: bytes, secret: str = APP_SECRET) -> dict[str, str]:
    """Return the headers with which Meta delivers a body."""
    found = hmac.new(secret.encode(), body, sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={found}", "Content-Type": "application/json"}


@asynccontextmanager
async def open_whatsapp_api() -> AsyncGenerator[WhatsAppApi]:
    """Run the Cloud API on a port of loopback while the block runs."""
    api = WhatsAppApi()
    app = web.Application(middlewares=[api.guard], client_max_size=64 * 1024 * 1024)
    app.add_routes(
        [
            web.post("/v25.0/{id}/messages", api.post_message),
            web.post("/v25.0/{id}/media", api.upload),
            web.get("/v25.0/{id}", api.media_address),
            web.get("/download/{id}", api.download),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    api.url = f"http://{host}:{port}"
    try:
        async with anyio.create_task_group() as api.tasks:
            api.tasks.start_soon(api.repeat)
            yield api
            api.tasks.cancel_scope.cancel()
    finally:
        await runner.cleanup()
