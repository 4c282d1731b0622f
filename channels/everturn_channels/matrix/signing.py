"""Cross-signing: the bot's account vouches for its device.

Clients that ask for it show messages of other devices with a warning, or not at all, and give them
no keys. Source: https://spec.matrix.org/v1.16/client-server-api/#cross-signing, and
https://github.com/matrix-org/matrix-spec-proposals/pull/4153, read 2026-11-26.

The keys are made once, and stand beside those of the device. An account whose keys another program
made cannot be signed for here; that is told, and all else works.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import vodozemac
from anyio import to_thread

from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.matrix.account import (
    NOT_OURS,
    SIGNING_FILE,
    Login,
    MatrixAccount,
)
from everturn_channels.matrix.requests import Homeserver, RequestFailedError

logger = logging.getLogger(__name__)

USAGES: Final = ("master", "self_signing", "user_signing")
_PICKLE_KEY: Final = bytes(32)  # the file is as secret as the keys beside it


class SigningKeys:
    """The three keys of an account. An Olm account is a key of the same kind, and is kept so."""

    def __init__(self, user_id: str, keys: Mapping[str, vodozemac.Account]) -> None:
        self._user_id, self._keys = user_id, keys

    def public(self, usage: str) -> str:
        """Return the public half of one of them."""
        return self._keys[usage].ed25519_key.to_base64()

    def described(self, usage: str) -> dict[str, object]:
        """Return one of them as homeservers take it, signed by the first."""
        public = self.public(usage)
        found: dict[str, object] = {
            "user_id": self._user_id,
            "usage": [usage],
            "keys": {f"ed25519:{public}": public},
        }
        return found if usage == "master" else self.signed(found, "master")

    def signed(self, value: Json, usage: str) -> dict[str, object]:
        """Return a JSON object with the signature of one of them, and no other."""
        bare = {name: each for name, each in value.items() if name not in _AROUND}
        text = json.dumps(bare, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        signature = self._keys[usage].sign(text.encode()).to_base64()
        name = f"ed25519:{self.public(usage)}"
        return {**bare, "signatures": {self._user_id: {name: signature}}}


_AROUND: Final = frozenset({"signatures", "unsigned"})


async def sign_device(
    server: Homeserver, account: MatrixAccount, login: Login, folder: Path
) -> str:
    """Have the account vouch for its device; return what keeps it from that, for its owner.

    Twice does no harm.

    Raises:
        RequestFailedError: The homeserver cannot be asked.
        OSError: The keys cannot be read or written.
    """
    me = login.user_id
    body: dict[str, dict[str, list[str]]] = {"device_keys": {me: []}}
    known = await server.ask("POST", "/_matrix/client/v3/keys/query", body)
    keys = await to_thread.run_sync(_read, folder / SIGNING_FILE, me)
    there = object_of(known, "master_keys", me, "keys")
    if there and (keys is None or keys.public("master") not in there.values()):
        return NOT_OURS
    if keys is None:
        keys = await to_thread.run_sync(_make, folder / SIGNING_FILE, me)
    if not there:
        try:
            await _upload(server, account, keys)
        except RequestFailedError as error:
            if not error.is_refusal:
                raise
            return f"the homeserver takes no cross-signing keys of the bot: {error}"
    device = object_of(known, "device_keys", me, login.device_id)
    name = f"ed25519:{keys.public('self_signing')}"
    if device and not text_of(device, "signatures", me, name):
        signed = {me: {login.device_id: keys.signed(device, "self_signing")}}
        await server.ask("POST", "/_matrix/client/v3/keys/signatures/upload", signed)
    return ""


async def _upload(server: Homeserver, account: MatrixAccount, keys: SigningKeys) -> None:
    """Give the homeserver the public keys; where it asks for the password, with that."""
    body: dict[str, object] = {f"{usage}_key": keys.described(usage) for usage in USAGES}
    path = "/_matrix/client/v3/keys/device_signing/upload"
    try:
        await server.ask("POST", path, body)
    except RequestFailedError as error:
        session = text_of(error.answer, "session")
        if error.status != 401 or not session or not account.password:
            raise
        body["auth"] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": account.user},
            "password": account.password,
            "session": session,
        }
        await server.ask("POST", path, body)


def _read(file: Path, user_id: str) -> SigningKeys | None:
    try:
        kept: object = json.loads(file.read_text(encoding="utf-8"))
        keys = {
            usage: vodozemac.Account.from_pickle(text_of(kept, usage), _PICKLE_KEY)
            for usage in USAGES
        }
    except FileNotFoundError:
        return None
    except (ValueError, vodozemac.PickleException) as error:
        logger.warning(
            "the cross-signing keys cannot be read", extra={"file": str(file), "why": str(error)}
        )
        return None
    return SigningKeys(user_id, keys)


def _make(file: Path, user_id: str) -> SigningKeys:
    keys = {usage: vodozemac.Account() for usage in USAGES}
    kept = {usage: key.pickle(_PICKLE_KEY) for usage, key in keys.items()}
    draft = file.with_suffix(".new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(kept, out)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
    return SigningKeys(user_id, keys)
