"""A channel of one's own: XMPP, on slixmpp (`pip install slixmpp`) and the kit for channels.

Name it in `everturn.yaml`, and write to the bot's account:

    channels:
      external:
        - name: xmpp
          command: python3
          args: [examples/xmpp_channel.py]
          env: {XMPP_JID: bot@example.com, XMPP_PASSWORD: "${XMPP_PASSWORD}"}

The server has to keep an archive: what is written while the bot is away is read from it, and what
was perhaps sent is looked for there before it is sent again. Rooms and encryption are left out.

Source: https://xmpp.org/extensions/, XEP-0308, 0313, 0359 and 0424; read 2026-11-27.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from slixmpp import JID, ClientXMPP
from slixmpp import Message as Stanza
from slixmpp.exceptions import IqError

from everturn_channels.plugin import kit

ACCOUNT, PASSWORD = os.environ.get("XMPP_JID", ""), os.environ.get("XMPP_PASSWORD", "")
HOST, PORT = os.environ.get("XMPP_HOST", ""), int(os.environ.get("XMPP_PORT", "5222"))
CORRECTION = "{urn:xmpp:message-correct:0}replace"
RETRACTION = "{urn:xmpp:message-retract:1}retract"
OPEN_MOST = 500  # messages
GONE = {"item-not-found", "remote-server-not-found", "service-unavailable"}


class Xmpp(kit.Channel):
    """One account on one server."""

    name = "xmpp"
    capabilities = {"chunk_units": 5000, "edits": True, "typing_s": 30, "nonces": True}  # noqa: RUF012

    async def serve(self, gateway: kit.Gateway) -> None:
        """Log in, read what was missed, and hand in what is said."""
        self._gateway, self._bounced = gateway, dict[str, str]()
        self._open = deque[tuple[asyncio.Task[None], str]]()  # with their places in the archive
        self._ids = dict[tuple[str, str], str]()  # by sender and what that calls a message
        client = self._client = ClientXMPP(ACCOUNT, PASSWORD)
        client.enable_plaintext = is_here = HOST == "127.0.0.1"
        client.enable_starttls = client.enable_direct_tls = not is_here
        client.plugin["feature_mechanisms"].unencrypted_scram = is_here
        for number in ("0030", "0085", "0199", "0308", "0313", "0424"):
            client.register_plugin(f"xep_{number}")
        said = asyncio.Queue[Stanza | Exception | object]()
        for event in ("session_start", "message", "message_retract"):
            client.add_event_handler(event, said.put_nowait)
        refused = kit.SetupError(f"the server does not let {ACCOUNT!r} in: look at XMPP_PASSWORD")
        away = ConnectionError("the server cannot be reached, or has closed the connection")
        ends = {"failed_all_auth": refused, "connection_failed": away, "disconnected": away}
        for event, error in ends.items():
            client.add_event_handler(event, lambda _, error=error: said.put_nowait(error))
        client.add_event_handler("message_error", self._bounce)
        _ = client.connect(HOST, PORT)
        try:
            while True:
                try:
                    item = await asyncio.wait_for(said.get(), 60)
                except TimeoutError:
                    await self._until_read()  # nobody writes: is the server there?
                    gateway.received()
                    continue
                if isinstance(item, Exception):
                    raise item
                if not isinstance(item, Stanza):
                    await self._begin()
                elif item.xml.find("{urn:xmpp:delay}delay") is None:  # else the archive has it
                    ids = item.xml.findall("{urn:xmpp:sid:0}stanza-id")
                    own = (i.get("id", "") for i in ids if i.get("by") == client.boundjid.bare)
                    await self._take(item, next(own, ""), datetime.now(UTC))
        finally:
            client.abort()

    async def _begin(self) -> None:
        """Say that all is well, and read what was missed; what is new meanwhile waits."""
        client, cursor, me = self._client, self._gateway.cursor, self._client.boundjid.bare
        about = await client.plugin["xep_0030"].get_info(jid=JID(me))
        if "urn:xmpp:mam:2" not in about["disco_info"]["features"]:
            msg = "the server keeps no archive for this account (XEP-0313)"
            raise kit.SetupError(msg)
        self._gateway.connected(me)
        client.send_presence()
        archive = client.plugin["xep_0313"]
        if self._gateway.is_new and not cursor:  # nothing old, but what comes next
            async for found in archive.iterate(reverse=True, rsm={"max": 1}, total=1):
                self._gateway.set_cursor(found["mam_result"]["id"])
            return
        lately = {"start": datetime.now(UTC) - timedelta(days=1)}  # where the place is forgotten
        for query in ({"rsm": {"after": cursor, "max": 100}} if cursor else lately, lately):
            with suppress(IqError):
                async for found in archive.iterate(**query):
                    place, held = found["mam_result"]["id"], found["mam_result"]["forwarded"]
                    await self._take(held["stanza"], place, held["delay"]["stamp"])
                return

    async def _take(self, stanza: Stanza, place: str, at: datetime) -> None:
        """Begin to hand in what somebody said; the cursor follows what is on disk."""
        event = self._event(stanza, place or stanza["id"], at)
        task = asyncio.create_task(self._gateway.handle(event) if event else asyncio.sleep(0))
        self._open.append((task, place))
        task.add_done_callback(self._advance)
        while len(self._open) > OPEN_MOST:
            await asyncio.wait([self._open[0][0]])

    def _advance(self, _task: object) -> None:
        while self._open and self._open[0][0].done():
            task, place = self._open.popleft()
            if task.cancelled():
                self._open.clear()  # what is behind it does not count
            elif place:
                self._gateway.set_cursor(place)

    def _event(self, stanza: Stanza, number: str, at: datetime) -> kit.Event | None:
        who, text = stanza["from"].bare, stanza["body"]
        if who == self._client.boundjid.bare or stanza["type"] not in {"chat", "normal"}:
            return None
        chat, sender = kit.ChatRef(who), kit.Person(id=who, name=who)
        gone, corrected = stanza.xml.find(RETRACTION), stanza.xml.find(CORRECTION)
        if gone is not None:
            return kit.Deletion(id=self._ids.get((who, gone.get("id", "")), "unknown"), chat=chat)
        if corrected is not None:
            first = self._ids.get((who, corrected.get("id", "")), "unknown")
            return kit.Edit(id=first, chat=chat, sender=sender, at=at, text=text)
        self._ids[who, stanza["id"]] = number
        if len(self._ids) > OPEN_MOST:
            del self._ids[next(iter(self._ids))]  # nobody corrects what is older
        return kit.Message(id=number, chat=chat, sender=sender, at=at, text=text) if text else None

    def _bounce(self, stanza: Stanza) -> None:
        if stanza["id"] in self._bounced:
            self._bounced[stanza["id"]] = stanza["error"]["condition"]

    async def send(self, message: kit.Outbound) -> str:
        """Send a message; one that may be there already is looked for in the archive."""
        client, nonce = self._client, message.nonce or self._client.new_id()
        if message.is_repeat:
            archive, whom = client.plugin["xep_0313"], JID(message.chat_id)
            async for found in archive.iterate(with_jid=whom, reverse=True, total=100):
                if found["mam_result"]["forwarded"]["stanza"]["id"] == nonce:
                    return nonce
        stanza = client.make_message(mto=message.chat_id, mbody=message.text, mtype="chat")
        stanza["id"], self._bounced[nonce] = nonce, ""
        stanza.send()
        await self._until_read()
        if why := self._bounced.pop(nonce):
            raise kit.RefusedError(why, is_chat_gone=why in GONE)
        return nonce

    async def edit(self, chat: str, topic: str, message_id: str, text: str, style: str) -> None:
        """Correct a message of the bot."""
        self._client.plugin["xep_0308"].build_correction(message_id, JID(chat), mbody=text).send()
        await self._until_read()

    async def type(self, chat: str, topic: str) -> None:
        """Show that the bot writes."""
        stanza = self._client.make_message(mto=chat, mtype="chat")
        stanza["chat_state"] = "composing"
        stanza.send()

    async def _until_read(self) -> None:
        """Wait until the server has read all that was written to it: it answers in order."""
        with suppress(IqError):  # which is an answer, too
            server = JID(self._client.boundjid.host)
            await self._client.plugin["xep_0199"].send_ping(server, timeout=10)


if __name__ == "__main__":
    kit.run(Xmpp())
