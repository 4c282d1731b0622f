"""matrix-nio's machine of keys, as much of it as is used here, with types. The library has none.

Nothing of it may be called by two threads at once: the tables of its store are bound to one store
for the whole process while a call lasts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol, cast

import vodozemac
from nio.crypto import Olm, decrypt_attachment, encrypt_attachment
from nio.events import ForwardedRoomKeyEvent, RoomKeyEvent, ToDeviceEvent
from nio.responses import KeysClaimResponse, KeysQueryResponse
from nio.store import SqliteStore
from peewee import SqliteDatabase

from everturn_channels.ingestion.json_fields import Json

logging.getLogger("nio").setLevel(logging.CRITICAL)  # what matters of it is told by its callers

FAULTS: Final = (
    vodozemac.DecodeException,
    vodozemac.MegolmDecryptionException,
    UnicodeDecodeError,
    ValueError,
)
"What the decryption of a message raises that is none."


class Device(Protocol):
    """A device of somebody."""

    id: str
    curve25519: str


class Devices(Protocol):
    """The devices that are known, those that are gone included."""

    def active_user_devices(self, user_id: str) -> Iterator[Device]:
        """Yield those of a person that are not gone."""
        ...

    def __getitem__(self, user_id: str) -> Mapping[str, Device]:
        """Return all of a person."""
        ...


class InboundSession(Protocol):
    """The key of somebody's messages in a room."""

    sender_key: str

    def decrypt(self, message: str) -> tuple[str, int]:
        """Return the text of a message, and its number; raises one of `FAULTS`."""
        ...


class OutboundSession(Protocol):
    """The key of our own messages in a room."""

    shared: bool

    @property
    def expired(self) -> bool:
        """Whether it was used for so long, or so often, that another one is needed."""
        ...

    def mark_as_shared(self) -> None:
        """Note that all who should have it do."""
        ...


class OlmAccount(Protocol):
    """Our own keys."""

    shared: bool

    @property
    def max_one_time_keys(self) -> int:
        """How many there can be on the homeserver."""
        ...

    @property
    def identity_keys(self) -> Mapping[str, str]:
        """`ed25519` and `curve25519`, the public halves."""
        ...


class ToDevice(Protocol):
    """A message to a device that has to be sent."""

    type: str

    def as_dict(self) -> Mapping[str, object]:
        """Return the body of the request."""
        ...


class Database(Protocol):
    """The file of the keys."""

    def atomic(self) -> AbstractContextManager[object]:
        """Write all of a block, or nothing of it."""
        ...

    def close(self) -> object:
        """Close it."""
        ...


class Store(Protocol):
    """Where the keys are kept."""

    database: Database
    database_path: str


class Machine(Protocol):
    """The keys of one device; `nio.crypto.Olm`."""

    user_id: str
    device_id: str
    store: Store
    account: OlmAccount
    device_store: Devices
    tracked_users: set[str]
    users_for_key_query: set[str]
    uploaded_key_count: int | None
    outbound_group_sessions: dict[str, OutboundSession]
    inbound_group_store: Mapping[str, Mapping[str, Mapping[str, InboundSession]]]
    "By room, sender's key and session."
    wedged_devices: list[object]
    outgoing_to_device_messages: list[ToDevice]

    def share_keys(self) -> dict[str, Any]: ...
    def save_account(self) -> None: ...
    def mark_keys_as_published(self) -> None: ...
    def add_changed_users(self, users: set[str]) -> None: ...
    def get_missing_sessions(self, users: list[str]) -> dict[str, list[str]]: ...
    def get_users_for_key_claiming(self) -> dict[str, list[str]]: ...
    def group_encrypt(self, room_id: str, event: dict[str, object]) -> dict[str, object]: ...
    def message_index_ok(self, index: int, event: object) -> bool: ...
    def handle_response(self, response: object) -> None: ...
    def handle_to_device_event(self, event: object) -> object: ...

    def share_group_session_parallel(
        self, room_id: str, users: list[str], *, ignore_unverified_devices: bool
    ) -> Iterator[tuple[object, Mapping[str, object]]]: ...


class _Store(SqliteStore):
    """The library's store over one connection, which any thread may use in its turn."""

    def _create_database(self) -> SqliteDatabase:
        return SqliteDatabase(
            self.database_path,
            pragmas={"foreign_keys": 1, "secure_delete": 1},
            thread_safe=False,
            check_same_thread=False,
        )


def open_machine(user_id: str, device_id: str, folder: Path) -> Machine:
    """Open the keys of a device, in a file that nobody else can read; new ones where it is new.

    Raises:
        Exception: The file cannot be read, or holds something else.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{device_id}.db"
    store = _Store(user_id, device_id, str(folder), database_name=name)
    (folder / name).chmod(0o600)
    return cast("Machine", Olm(user_id, device_id, store))


class _ToDeviceEvents(Protocol):
    """What the library makes of messages to this device."""

    def parse_encrypted_event(self, raw: Json) -> object:
        """Return what it is; None where it is of no kind that is known."""
        ...


def take_to_device(machine: Machine, raw: Json) -> Iterable[tuple[str, str]]:
    """Take an encrypted message to this device; return the room and the session of a new key.

    Raises:
        Exception: It cannot be read.
    """
    event = cast("_ToDeviceEvents", ToDeviceEvent).parse_encrypted_event(raw)
    found = machine.handle_to_device_event(event) if event is not None else None
    if isinstance(found, RoomKeyEvent | ForwardedRoomKeyEvent):
        return [(str(found.room_id), str(found.session_id))]
    return []


def take_devices(machine: Machine, user_id: str, devices: Json) -> None:
    """Take the devices of a person, as their homeserver tells them.

    Raises:
        Exception: They cannot be read.
    """
    machine.handle_response(KeysQueryResponse({user_id: dict(devices)}, {}))


def take_one_time_key(machine: Machine, user_id: str, device_id: str, keys: object) -> None:
    """Begin a session with a device by a key of it.

    Raises:
        Exception: It is none.
    """
    machine.handle_response(KeysClaimResponse({user_id: {device_id: keys}}, {}))


def encrypt_file(data: bytes) -> tuple[bytes, dict[str, object]]:
    """Return a file encrypted, and what its message says so that it can be read."""
    encrypted, how = encrypt_attachment(data)
    return encrypted, how


def decrypt_file(data: bytes, key: str, digest: str, start: str) -> bytes:
    """Return a file as it was.

    Args:
        data: As it is on the homeserver.
        key: Of its message, as are the others.
        digest: The SHA-256 of `data`.
        start: The counter that it was encrypted with.

    Raises:
        Exception: It is not the one that its message names.
    """
    return bytes(decrypt_attachment(data, key, digest, start))
