"""People on Matrix, over HTTP: on the pretended homeserver and on a real one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import aiohttp

from everturn_channels.matrix.account import Login
from everturn_channels.matrix.encryption import Encryption, UndecryptableError, open_encryption
from everturn_channels.matrix.requests import Homeserver

Json: TypeAlias = dict[str, Any]
ENCRYPTED = {"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


class Person:
    """Somebody with a client."""

    def __init__(self, session: aiohttp.ClientSession, url: str, user: str, token: str) -> None:
        self.user, self.token, self.url = user, token, url
        self._session = session
        self._numbers = count()
        self._encryption: Encryption | None = None
        self._since = ""

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """Ask the homeserver for something."""
        async with self._session.request(
            method,
            f"{self.url}/_matrix/client/v3{path}",
            json=body,
            params=query,
            headers={"Authorization": f"Bearer {self.token}"},
        ) as answer:
            found: Json = await answer.json()
            if answer.status != 200:
                msg = f"{method} {path}: {answer.status} {found}"
                raise AssertionError(msg)
            return found

    async def create_room(self, *invited: str, is_encrypted: bool = False, name: str = "") -> str:
        """Open a room, and invite others."""
        body: Json = {"invite": list(invited), "is_direct": len(invited) == 1, "name": name}
        body["preset"] = "private_chat"
        body["initial_state"] = [ENCRYPTED] if is_encrypted else []
        return str((await self.ask("POST", "/createRoom", body))["room_id"])

    async def join(self, room_id: str) -> None:
        """Follow an invitation."""
        await self.ask("POST", f"/rooms/{quote(room_id)}/join", {})

    async def write(self, room_id: str, text: str, **more: object) -> str:
        """Write a message; encrypted where this person reads and writes so."""
        return await self.send(
            room_id, "m.room.message", {"msgtype": "m.text", "body": text, **more}
        )

    async def send(self, room_id: str, kind: str, content: Mapping[str, object]) -> str:
        """Send an event."""
        if self._encryption is not None and kind != "m.reaction":
            await self.look()
            content = await self._encryption.encrypt(
                room_id, await self._members(room_id), kind, content
            )
            kind = "m.room.encrypted"
        path = f"/rooms/{quote(room_id)}/send/{kind}/{self.user}-{next(self._numbers)}"
        return str((await self.ask("PUT", path, content))["event_id"])

    async def redact(self, room_id: str, event_id: str) -> None:
        """Take an event back."""
        path = f"/rooms/{quote(room_id)}/redact/{quote(event_id)}/{self.user}-{next(self._numbers)}"
        await self.ask("PUT", path, {})

    async def _members(self, room_id: str) -> Sequence[str]:
        found = await self.ask("GET", f"/rooms/{quote(room_id)}/members")
        here = {"join", "invite"}
        return [e["state_key"] for e in found["chunk"] if e["content"]["membership"] in here]

    async def look(self) -> Json:
        """Look at what is new: the keys of messages come so."""
        query = {"since": self._since} if self._since else {}
        found = await self.ask("GET", "/sync", query=query)
        self._since = found["next_batch"]
        if self._encryption is not None:
            await self._encryption.take(found)
        return found

    async def events(self, room_id: str) -> Sequence[Json]:
        """Return the events of a room, oldest first, decrypted as far as that is possible."""
        await self.look()
        query = {"dir": "b", "limit": "1000"}
        page = await self.ask("GET", f"/rooms/{quote(room_id)}/messages", query=query)
        return [await self._decrypted(raw, room_id) for raw in reversed(page["chunk"])]

    async def _decrypted(self, raw: Json, room_id: str) -> Json:
        if self._encryption is None or raw["type"] != "m.room.encrypted" or not raw["content"]:
            return raw
        try:
            return dict(await self._encryption.decrypt(raw, room_id))
        except UndecryptableError:
            return raw

    async def messages(self, room_id: str, sender: str) -> Sequence[Json]:
        """Return the contents of what somebody said in a room, oldest first."""
        found = await self.events(room_id)
        written = [e for e in found if e["type"] == "m.room.message" and e["sender"] == sender]
        return [e["content"] for e in written if e["content"]]

    async def uploaded(self, data: bytes) -> Json:
        """Put a file on the homeserver; return what a message says of it."""
        server = self._server()
        content: Json = {}
        if self._encryption is None:
            content["url"] = await server.upload(data, media_type="", file_name="")
        else:
            data, how = await self._encryption.encrypt_file(data)
            content["file"] = how | {"url": await server.upload(data, media_type="", file_name="")}
        return content

    async def downloaded(self, content: Json) -> bytes:
        """Return the file of a message."""
        how = content.get("file", {})
        data = await self._server().download(how.get("url") or content["url"], 1_000_000)
        return data if self._encryption is None else await self._encryption.decrypt_file(data, how)

    def _server(self) -> Homeserver:
        server = Homeserver(self._session, self.url)
        server.token = self.token
        return server

    @asynccontextmanager
    async def encrypting(self, folder: Path) -> AsyncGenerator[None]:
        """Read and write encrypted messages while the block runs."""
        server = self._server()
        me = await self.ask("GET", "/account/whoami")
        login = Login(user_id=self.user, device_id=me["device_id"])
        async with open_encryption(server, login, folder) as self._encryption:
            await self._encryption.publish()
            yield
        self._encryption = None
