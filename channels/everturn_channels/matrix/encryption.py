"""End-to-end encryption: matrix-nio's machine and store of keys, over our own requests.

The machine is not thread-safe, writes its store in place, and binds the classes of its tables for
the whole process; so all of it runs in threads, one call at a time. What it holds is written before
the call returns: a process that is killed later has every key that it was given.

A device is not verified by hand here: messages go to all devices of those who are in a room, as
with any bot. Source: https://spec.matrix.org/v1.16/client-server-api/#end-to-end-encryption.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread

from everturn_channels.errors import ConnectionLostError, SetupError
from everturn_channels.ingestion.json_fields import (
    Json,
    number_of,
    object_of,
    objects_of,
    text_of,
    texts_of,
)
from everturn_channels.matrix.account import Login
from everturn_channels.matrix.machine import (
    FAULTS,
    Machine,
    decrypt_file,
    encrypt_file,
    open_machine,
    take_devices,
    take_one_time_key,
    take_to_device,
)
from everturn_channels.matrix.requests import Homeserver, RequestFailedError, in_path

T = TypeVar("T")

logger = logging.getLogger(__name__)

KEYS_TIMEOUT_MS: Final = 10_000
"So long a homeserver asks others for keys."
ASK_AGAIN_S: Final = 300.0
"Before keys of people are asked for anew whose own homeserver did not answer."
OTHERS_MAX: Final = 2_000  # reasons for keys that were withheld
_SIGNED: Final = "signed_curve25519"
_ONE_STORE: Final = threading.Lock()


class KeysLostError(SetupError):
    """The homeserver has other keys for the bot's device than are kept here."""


class UndecryptableError(Exception):
    """A message cannot be read, for want of its key or because something about it is wrong.

    Attributes:
        session_id: Whose key is missing; empty = no key would help.
    """

    def __init__(self, message: str, *, session_id: str = "") -> None:
        self.session_id = session_id
        super().__init__(message)


class DeviceKeys:
    """The keys of one device on the homeserver, and those of the devices of others."""

    def __init__(self, server: Homeserver, olm: Machine) -> None:
        self._server, self.olm = server, olm
        self._lock = anyio.Lock()
        self._ask_again: dict[str, float] = {}

    async def run(self, do: Callable[..., T], *args: object) -> T:
        """Do something with the machine in a thread, with nothing else beside it.

        All that it writes is written at once.
        """

        def alone() -> T:
            with _ONE_STORE, self.olm.store.database.atomic():
                return do(*args)

        async with self._lock:
            return await to_thread.run_sync(alone)

    # --- our own keys ---

    async def publish(self) -> None:
        """Give the homeserver the keys of this device, where it has none or other ones.

        Raises:
            KeysLostError: It has other ones.
            RequestFailedError: It cannot be asked.
        """
        olm = self.olm
        known = await self.query([olm.user_id])
        keys = object_of(known, "device_keys", olm.user_id, olm.device_id, "keys")
        there = text_of(keys, f"ed25519:{olm.device_id}")
        mine = olm.account.identity_keys["ed25519"]
        if there and there != mine:
            msg = (
                f"the homeserver knows the device {olm.device_id} by other keys than those in"
                f" {olm.store.database_path}: they were lost, or the token is that of another"
                " program. Log in anew, with a token of its own, or with a password"
            )
            raise KeysLostError(msg)
        if not there:
            olm.account.shared = False
        await self.renew()

    async def renew(self) -> None:
        """Give it new one-time keys where few are left.

        Raises:
            RequestFailedError: It does not take them.
        """
        olm = self.olm
        account, left = olm.account, olm.uploaded_key_count
        if account.shared and (left is None or left >= account.max_one_time_keys // 2):
            return
        body = await self.run(self._fresh_keys)
        answer = await self._server.ask("POST", "/_matrix/client/v3/keys/upload", body)
        count = number_of(answer, "one_time_key_counts", _SIGNED) or 0
        await self.run(partial(self._note_published, count))

    def _fresh_keys(self) -> dict[str, Any]:
        body = self.olm.share_keys()
        self.olm.save_account()  # first: a key that is lost would make a message unreadable
        return body

    def _note_published(self, count: int) -> None:
        olm = self.olm
        olm.account.shared, olm.uploaded_key_count = True, count
        olm.mark_keys_as_published()
        olm.save_account()

    # --- the keys of others ---

    async def query(self, users: Iterable[str]) -> Json:
        """Return what homeservers say of the devices of people.

        Raises:
            RequestFailedError: Ours cannot be asked.
        """
        body = {"device_keys": {user: list[str]() for user in users}, "timeout": KEYS_TIMEOUT_MS}
        return await self._server.ask("POST", "/_matrix/client/v3/keys/query", body)

    async def know(self, users: Iterable[str]) -> None:
        """Ask for the devices of people whose devices are not known, or changed.

        Raises:
            RequestFailedError: Our homeserver cannot be asked.
        """
        olm, now = self.olm, anyio.current_time()
        asked = [
            user
            for user in users
            if (user not in olm.tracked_users or user in olm.users_for_key_query)
            and self._ask_again.get(user, 0.0) <= now
        ]
        if asked:
            answer = await self.query(asked)
            await self.run(partial(self._note_devices, object_of(answer, "device_keys")))
            for user in asked:  # of a homeserver that is away: not with each message
                if user not in olm.tracked_users:
                    self._ask_again[user] = now + ASK_AGAIN_S
                else:
                    self._ask_again.pop(user, None)

    def _note_devices(self, found: Json) -> None:
        for user in found:
            try:
                take_devices(self.olm, user, object_of(found, user))
            except Exception as error:  # the boundary around what a stranger sent
                logger.info(
                    "somebody's devices cannot be read",
                    extra={"user": user, "why": type(error).__name__},
                )
                self.olm.tracked_users.add(user)

    async def claim(self, missing: Mapping[str, Sequence[str]]) -> None:
        """Begin sessions with devices with which there is none.

        Raises:
            RequestFailedError: Our homeserver cannot be asked.
        """
        wanted = {user: dict.fromkeys(devices, _SIGNED) for user, devices in missing.items()}
        body = {"one_time_keys": wanted, "timeout": KEYS_TIMEOUT_MS}
        answer = await self._server.ask("POST", "/_matrix/client/v3/keys/claim", body)
        await self.run(partial(self._note_claimed, object_of(answer, "one_time_keys")))

    def _note_claimed(self, found: Json) -> None:
        for user in found:
            for device, keys in object_of(found, user).items():
                try:
                    take_one_time_key(self.olm, user, device, keys)
                except Exception as error:  # the boundary around what a stranger sent
                    logger.info(
                        "a key of somebody's device cannot be used",
                        extra={"user": user, "device": device, "why": type(error).__name__},
                    )

    async def mend(self) -> None:
        """Begin anew with devices whose messages to this one could not be read.

        Raises:
            RequestFailedError: Our homeserver cannot be asked.
        """
        olm = self.olm
        if olm.wedged_devices:
            await self.claim(olm.get_users_for_key_claiming())
            olm.wedged_devices.clear()  # one without keys left is tried when it writes again
        for message in list(olm.outgoing_to_device_messages):
            await self.send(message.type, message.as_dict())
            olm.outgoing_to_device_messages.remove(message)

    async def send(self, kind: str, messages: Mapping[str, object]) -> None:
        """Send messages to devices.

        Raises:
            RequestFailedError: They may not have arrived.
        """
        txn = secrets.token_hex(12)
        path = f"/_matrix/client/v3/sendToDevice/{in_path(kind)}/{txn}"
        await self._server.ask("PUT", path, messages)


class Encryption:
    """Reads and writes encrypted messages with the keys of a device; see `open_encryption`."""

    def __init__(self, keys: DeviceKeys) -> None:
        self._keys, self._olm = keys, keys.olm
        self._sending: dict[str, anyio.Lock] = {}
        self._recipients: dict[str, frozenset[tuple[str, str]]] = {}
        "Those who were given the key of a room that is in use."
        self._withheld: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._new_keys = anyio.Event()

    async def publish(self) -> None:
        """Give the homeserver the keys of this device, where it has none; see `DeviceKeys`."""
        await self._keys.publish()

    # --- what a sync brings ---

    async def take(self, sync: Json) -> Sequence[tuple[str, str]]:
        """Take what came for this device, durably; return the rooms and sessions of new keys.

        Keep no cursor beyond it before this returns: what came for a device comes once.
        """
        found = await self._keys.run(self._take, sync)
        try:
            await self._keys.renew()
            await self._keys.mend()
        except RequestFailedError as error:  # the next sync brings a new try
            logger.info("keys could not be sent to the homeserver", extra={"why": str(error)})
        if found:
            new_keys, self._new_keys = self._new_keys, anyio.Event()
            new_keys.set()
        return found

    @property
    def new_keys(self) -> anyio.Event:
        """Set when the next key comes, whichever it is."""
        return self._new_keys

    def _take(self, sync: Json) -> Sequence[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for raw in objects_of(sync, "to_device", "events"):
            match text_of(raw, "type"):
                case "m.room.encrypted":
                    found += self._take_encrypted(raw)
                case "m.room_key.withheld":
                    self._note_withheld(object_of(raw, "content"))
                case _:  # requests for keys, and verifications: a bot answers none
                    pass
        changed = texts_of(sync, "device_lists", "changed")
        self._olm.add_changed_users(self._olm.tracked_users.intersection(changed))
        count = number_of(sync, "device_one_time_keys_count", _SIGNED)
        # Servers leave the count out where there is none left, and where nothing changed.
        if count is not None or "device_one_time_keys_count" in sync:
            self._olm.uploaded_key_count = count or 0
        return found

    def _take_encrypted(self, raw: Json) -> Iterable[tuple[str, str]]:
        try:
            return take_to_device(self._olm, raw)
        except Exception as error:  # the boundary around what a stranger sent
            name = type(error).__name__
            logger.info("something sent to the device cannot be read", extra={"why": name})
            return ()

    def _note_withheld(self, content: Json) -> None:
        key = text_of(content, "room_id"), text_of(content, "session_id")
        self._withheld[key] = text_of(content, "code") or text_of(content, "reason")
        if len(self._withheld) > OTHERS_MAX:
            self._withheld.popitem(last=False)

    # --- rooms ---

    async def encrypt(
        self, room_id: str, members: Iterable[str], kind: str, content: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the content of an `m.room.encrypted` that those who are in a room can read.

        Raises:
            RequestFailedError: Keys could not be asked for, or given.
        """
        async with self._sending.setdefault(room_id, anyio.Lock()):
            users = sorted(members)
            await self._keys.know(users)
            await self._share(room_id, users)
            event: dict[str, object] = {"type": kind, "content": dict(content)}
            try:
                encrypted = await self._keys.run(partial(self._olm.group_encrypt, room_id, event))
            except Exception as error:  # the boundary around a library
                logger.exception("a message could not be encrypted", extra={"room": room_id})
                msg = f"it could not be encrypted ({type(error).__name__})"
                raise RequestFailedError(msg) from error
        # Servers read what a message replies to, or changes.
        relation = content.get("m.relates_to")
        return {**encrypted, **({"m.relates_to": relation} if relation else {})}

    async def _share(self, room_id: str, users: Sequence[str]) -> None:
        """Give the key of a room to all who are in it; a new one where they are not the same."""
        olm = self._olm
        there, missing, is_usable = await self._keys.run(partial(self._look_at, room_id, users))
        if is_usable:
            return
        if missing:
            await self._keys.claim(missing)
        share = partial(
            olm.share_group_session_parallel, room_id, list(users), ignore_unverified_devices=True
        )
        parts = await self._keys.run(lambda: list(share()))
        for _, messages in parts:
            await self._keys.send("m.room.encrypted", messages)
        olm.outbound_group_sessions[room_id].mark_as_shared()
        self._recipients[room_id] = there

    def _look_at(
        self, room_id: str, users: Sequence[str]
    ) -> tuple[frozenset[tuple[str, str]], Mapping[str, Sequence[str]], bool]:
        """Return the devices of a room, those without a session, and whether its key may stay."""
        olm = self._olm
        there = frozenset(
            (user, device.id)
            for user in users
            for device in olm.device_store.active_user_devices(user)
        )
        session = olm.outbound_group_sessions.get(room_id)
        is_usable = session is not None and session.shared and not session.expired
        if is_usable and self._recipients.get(room_id) == there:
            return there, {}, True
        olm.outbound_group_sessions.pop(room_id, None)
        return there, olm.get_missing_sessions(list(users)), False

    async def decrypt(self, raw: Json, room_id: str) -> Json:
        """Return an `m.room.encrypted` event as it was written, with the fields around it.

        Raises:
            UndecryptableError: It cannot be read.
            ConnectionLostError: Whether its sender wrote it cannot be asked now.
        """
        content = object_of(raw, "content")
        session_id, sender = text_of(content, "session_id"), text_of(raw, "sender")
        event, sender_key = await self._keys.run(partial(self._decrypt, raw, room_id, session_id))
        is_theirs = partial(self._is_of, sender, sender_key)
        if not await self._keys.run(is_theirs):
            self._olm.users_for_key_query.add(sender)
            try:
                await self._keys.know([sender])
            except RequestFailedError as error:
                raise ConnectionLostError(str(error)) from error
            if not await self._keys.run(is_theirs):
                msg = f"its key is that of no device of {sender}"
                raise UndecryptableError(msg)
        inner = {**object_of(event, "content")}
        if "m.relates_to" in content:
            inner.setdefault("m.relates_to", content["m.relates_to"])
        return {**raw, "type": text_of(event, "type"), "content": inner}

    def _decrypt(self, raw: Json, room_id: str, session_id: str) -> tuple[Json, str]:
        content, olm = object_of(raw, "content"), self._olm
        if text_of(content, "algorithm") != "m.megolm.v1.aes-sha2":
            msg = "it is encrypted in a way that is not known here"
            raise UndecryptableError(msg)
        known = olm.inbound_group_store[room_id]
        session = next((each[session_id] for each in known.values() if session_id in each), None)
        if session is None:
            code = self._withheld.get((room_id, session_id), "")
            why = f" ({code})" if code else ""
            msg = f"its key was not given to the bot{why}"
            raise UndecryptableError(msg, session_id=session_id)
        try:
            text, index = session.decrypt(text_of(content, "ciphertext"))
            event = json.loads(text)
        except FAULTS as error:
            msg = f"it cannot be decrypted: {type(error).__name__}"
            raise UndecryptableError(msg) from error
        if text_of(event, "room_id") != room_id:
            msg = "it was written for another room"
            raise UndecryptableError(msg)
        stamp = SimpleNamespace(
            sender_key=session.sender_key,
            session_id=session_id,
            event_id=text_of(raw, "event_id"),
            server_timestamp=number_of(raw, "origin_server_ts"),
        )
        if not olm.message_index_ok(index, stamp):
            msg = "it repeats another message"
            raise UndecryptableError(msg)
        return event, str(session.sender_key)

    def _is_of(self, sender: str, sender_key: str) -> bool:
        """Whether a key is that of a device of somebody, also of one that is gone."""
        olm = self._olm
        if sender == olm.user_id and sender_key == olm.account.identity_keys["curve25519"]:
            return True
        return any(each.curve25519 == sender_key for each in olm.device_store[sender].values())

    # --- files ---

    async def encrypt_file(self, data: bytes) -> tuple[bytes, dict[str, object]]:
        """Return a file encrypted, and what its message says so that it can be read."""
        return await to_thread.run_sync(encrypt_file, data)

    async def decrypt_file(self, data: bytes, how: Json) -> bytes:
        """Return a file as it was.

        Raises:
            Exception: It is not the one that its message names.
        """
        key, digest = text_of(how, "key", "k"), text_of(how, "hashes", "sha256")
        return await to_thread.run_sync(decrypt_file, data, key, digest, text_of(how, "iv"))


@asynccontextmanager
async def open_encryption(
    server: Homeserver, login: Login, folder: Path
) -> AsyncGenerator[Encryption]:
    """Open the keys of a device, which stand in a folder; new ones where there are none yet.

    Raises:
        SetupError: They cannot be read.
    """

    def opened() -> Machine:
        with _ONE_STORE:
            return open_machine(login.user_id, login.device_id, folder)

    try:
        olm = await to_thread.run_sync(opened)
    except Exception as error:  # the boundary around a library, a file and its form
        msg = (
            f"the keys of encrypted rooms in {folder} cannot be used: {error}. Set permissions"
            " right, or put a copy back; without them log in anew and remove the folder"
        )
        raise SetupError(msg) from error
    try:
        yield Encryption(DeviceKeys(server, olm))
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(olm.store.database.close)
