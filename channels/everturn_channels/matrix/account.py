"""Who the bot is on its homeserver, and how it logs in."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_channels.errors import SetupError
from everturn_channels.matrix.json_fields import text_of
from everturn_channels.matrix.requests import Homeserver, RequestFailedError

logger = logging.getLogger(__name__)

DEVICE_NAME: Final = "Everturn"


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
    "`http://host:port`; empty = none."
    keys: Path | None = None
    "The folder in which the keys of encrypted rooms are kept; None = those are not read."


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
