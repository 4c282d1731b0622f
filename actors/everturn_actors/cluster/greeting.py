"""Two nodes find out that both know the secret, and which version they speak. No secret travels.

1. Who was called says a number that was never used before (`Challenge`).
2. Who calls says one of its own, and the HMAC of both under the secret (`Hello`).
3. Who was called checks it, and says another HMAC of both (`Welcome`).

The two proofs are made of different words, so neither can be sent back; both name the nodes and the
versions, so nobody in between can change them. What is said afterwards is as safe as the network:
use TLS beyond loopback. A guess at the secret costs a connection, and a good secret is long.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.cluster.frames import (
    SPEAKS,
    Bye,
    Challenge,
    Hello,
    UnreadableFrameError,
    Welcome,
    common_version,
)
from everturn_actors.cluster.wire import Wire
from everturn_actors.errors import LinkBrokenError, LinkRefusedError

T = TypeVar("T")
_NONCE_BYTES: Final = 32
_CALLER: Final = "everturn link: who calls"
_CALLED: Final = "everturn link: who was called"
_DIFFERS: Final = "the secret of the cluster differs (cluster.secret); it has to be the same on all"


class Identity(Struct, frozen=True, kw_only=True):
    """Who a node is to others."""

    name: str
    secret: str
    speaks: tuple[int, int] = SPEAKS

    def __repr__(self) -> str:  # no log shows the secret
        return f"Identity({self.name!r})"


class Met(Struct, frozen=True, kw_only=True):
    """The node at the other end."""

    name: str
    version: int
    "Of the protocol that both use."


async def greet(wire: Wire, me: Identity, called: str) -> Met:
    """Begin a link as the one who calls a node of the name `called`.

    Raises:
        LinkRefusedError: The secret or the version differs; says what to do.
        LinkBrokenError: The other side is gone, or is no node.
    """
    challenge = await _expected(wire, Challenge)
    version = common_version(me.speaks, challenge.speaks, called)
    hello = Hello(node=me.name, nonce=secrets.token_hex(_NONCE_BYTES), speaks=me.speaks, proof="")
    await wire.say(replace(hello, proof=_proof(me, _CALLER, challenge, hello)))
    welcome = await _expected(wire, Welcome)
    if not _is_same(welcome.proof, _proof(me, _CALLED + welcome.node, challenge, hello)):
        msg = f"node {welcome.node[:64]!r}: {_DIFFERS}"
        raise LinkRefusedError(msg)
    return Met(name=welcome.node, version=version)


async def receive(wire: Wire, me: Identity) -> Met:
    """Begin a link as the one who was called.

    Raises:
        LinkRefusedError: The secret or the version differs; the other side was told.
        LinkBrokenError: The other side is gone, or is no node.
    """
    challenge = Challenge(nonce=secrets.token_hex(_NONCE_BYTES), speaks=me.speaks)
    await wire.say(challenge)
    hello = await _expected(wire, Hello)
    try:
        version = _admitted(me, challenge, hello)
    except LinkRefusedError as error:
        await wire.say(Bye(why=str(error), is_refusal=True))
        raise
    await wire.say(Welcome(node=me.name, proof=_proof(me, _CALLED + me.name, challenge, hello)))
    return Met(name=hello.node, version=version)


def _admitted(me: Identity, challenge: Challenge, hello: Hello) -> int:
    """Return the version that is used with a node that knows the secret.

    Raises:
        LinkRefusedError: It does not, or no version is common.
    """
    if not _is_same(hello.proof, _proof(me, _CALLER, challenge, hello)):
        raise LinkRefusedError(_DIFFERS)
    return common_version(me.speaks, hello.speaks, hello.node[:64])


def _proof(me: Identity, words: str, challenge: Challenge, hello: Hello) -> str:
    parts = (words, challenge.nonce, hello.nonce, hello.node, challenge.speaks, hello.speaks)
    said = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return hmac.digest(me.secret.encode(), said, "sha256").hex()


async def _expected(wire: Wire, kind: type[T]) -> T:
    """Return the next frame, which has to be of this kind.

    Raises:
        LinkRefusedError: The other side says why it goes no further.
        LinkBrokenError: It says something else, or nothing.
    """
    try:
        frame = await wire.next()
    except UnreadableFrameError as error:
        msg = "what answers is no node of Everturn"
        raise LinkBrokenError(msg) from error
    if isinstance(frame, kind):
        return frame
    if isinstance(frame, Bye):
        kind_of_end = LinkRefusedError if frame.is_refusal else LinkBrokenError
        raise kind_of_end(frame.why)
    msg = f"a {kind.__name__} was expected, and a {type(frame).__name__} came"
    raise LinkBrokenError(msg)


def _is_same(one: str, other: str) -> bool:
    """Compare two proofs in a time that tells nothing of where they differ."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )
