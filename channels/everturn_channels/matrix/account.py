"""Who the bot is on its homeserver, how it logs in, and a look at what may be wrong with it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_channels.errors import SetupError
from everturn_channels.ingestion.json_fields import object_of, text_of, texts_of
from everturn_channels.matrix.requests import Homeserver, RequestFailedError
from everturn_channels.matrix.rooms import Room, Rooms

logger = logging.getLogger(__name__)

DEVICE_NAME: Final = "Everturn"
ROOMS_SHOWN: Final = 20
SIGNING_FILE: Final = "cross-signing.keys"
NOT_OURS: Final = (
    "another program made the cross-signing keys of the account: verify the bot's device there, or"
    " reset them, or some clients will not show what the bot writes in encrypted rooms"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixAccount:
    """An account, as its owner set it up: with a token, or with a name and a password."""

    homeserver: str
    "`https://matrix.example.org`."
    user: str = ""
    "`@bot:example.org`, or the part between `@` and `:`; only with a password."
    password: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    proxy: str = ""
    "`http://host:port` or `socks5://host:port`; empty = none."
    keys: Path | None = None
    "The folder in which the keys of encrypted rooms are kept; None = those are not read."
    has_threads: bool = False
    "Whether a question in a room is answered in a thread below it."


class Login(Struct, frozen=True, kw_only=True):
    """A session on the homeserver."""

    user_id: str
    device_id: str


async def log_in(server: Homeserver, account: MatrixAccount, device_id: str) -> Login:
    """Log in, so that requests of `server` are those of the account.

    Args:
        server: The homeserver.
        account: Whose.
        device_id: The device that logs in, which an earlier login was given; empty = a new one.
            With a token it is the token's own.

    Raises:
        SetupError: The homeserver does not know the account, its password or its token.
        RequestFailedError: The homeserver cannot be reached, or not now.
    """
    if account.access_token:
        server.token = account.access_token
        found = await server.ask("GET", "/_matrix/client/v3/account/whoami")
        return Login(user_id=text_of(found, "user_id"), device_id=text_of(found, "device_id"))
    server.token = ""
    body: dict[str, object] = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": account.user},
        "password": account.password,
        "initial_device_display_name": DEVICE_NAME,
    }
    if device_id:
        body["device_id"] = device_id
    try:
        found = await server.ask("POST", "/_matrix/client/v3/login", body)
    except RequestFailedError as error:
        if error.code in {"M_FORBIDDEN", "M_USER_DEACTIVATED", "M_UNKNOWN"} and error.is_refusal:
            msg = f"the homeserver does not let {account.user} in with its password: {error.words}"
            raise SetupError(msg) from error
        raise
    server.token = text_of(found, "access_token")
    return Login(user_id=text_of(found, "user_id"), device_id=text_of(found, "device_id"))


async def log_out(server: Homeserver) -> None:
    """End the session, and with it its device. What fails is left: it harms nobody."""
    try:
        await server.ask("POST", "/_matrix/client/v3/logout", {})
    except RequestFailedError as error:
        logger.info("a login could not be ended", extra={"why": str(error)})


# --- looking at what may be wrong, for its owner ---


async def look(server: Homeserver, login: Login, account: MatrixAccount) -> list[str]:
    """Return a line for each thing found; those with `problem: ` need the owner.

    Raises:
        RequestFailedError: The homeserver cannot be asked.
    """
    found = [f"the account is {login.user_id} on {account.homeserver}"]
    if account.access_token:
        found.append(f"its token is that of the device {login.device_id}")
    found += await _encryption(server, login, account)
    joined = texts_of(await server.ask("GET", "/_matrix/client/v3/joined_rooms"), "joined_rooms")
    found.append(f"rooms that it is in: {len(joined)}")
    rooms = Rooms(server)
    for room_id in joined[:ROOMS_SHOWN]:
        try:
            room = await rooms.get(room_id)
        except RequestFailedError as error:
            found.append(f"the room {room_id} cannot be looked at: {error}")
        else:
            found.append(_line(room, account))
    if len(joined) > ROOMS_SHOWN:
        found.append(f"and {len(joined) - ROOMS_SHOWN} more")
    return found


def _line(room: Room, account: MatrixAccount) -> str:
    chat = room.chat()
    kind = "encrypted" if room.is_encrypted else "not encrypted"
    line = f"{room.id} ({chat.title}): {len(room.members)} people, {kind}"
    if room.is_encrypted and account.keys is None:
        return f"problem: {line}, and encryption is false: what is written there is not read"
    return line


async def _encryption(server: Homeserver, login: Login, account: MatrixAccount) -> Sequence[str]:
    if account.keys is None:
        return ["encrypted rooms are not read (encryption: false)"]
    me = login.user_id
    body: dict[str, dict[str, list[str]]] = {"device_keys": {me: []}}
    known = await server.ask("POST", "/_matrix/client/v3/keys/query", body)
    found = [f"the keys of encrypted rooms are kept in {account.keys}"]
    is_file = (account.keys / f"{login.device_id}.db").exists()
    has_keys = bool(text_of(known, "device_keys", me, login.device_id, "user_id"))
    if account.access_token and has_keys and not is_file:
        found.append(
            f"problem: the device {login.device_id} has keys that are not there: they were lost, or"
            " the token is that of another program. Log in anew, with a token of its own"
        )
    has_ours = (account.keys / SIGNING_FILE).exists()
    if object_of(known, "master_keys", me, "keys") and not has_ours:
        found.append(f"problem: {NOT_OURS}")
    return found
