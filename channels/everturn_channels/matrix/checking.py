"""Looking at what may be wrong with an account, for its owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everturn_channels.matrix.account import Login, MatrixAccount
from everturn_channels.matrix.json_fields import object_of, text_of, texts_of
from everturn_channels.matrix.requests import Homeserver, RequestFailedError
from everturn_channels.matrix.rooms import Room, Rooms
from everturn_channels.matrix.signing import FILE, NOT_OURS

ROOMS_SHOWN: Final = 20


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
    has_ours = (account.keys / FILE).exists()
    if object_of(known, "master_keys", me, "keys") and not has_ours:
        found.append(f"problem: {NOT_OURS}")
    return found
