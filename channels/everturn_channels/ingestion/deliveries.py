"""What a platform delivers over HTTP: whose it is, and what is answered once it is durable.

The same for every platform that signs its deliveries: the signature is one of the bytes as they
came, whoever delivers waits until what they bring is on disk, and what is not confirmed in time is
delivered again.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from typing import Final, TypeAlias

import anyio
from msgspec import Struct

Confirm: TypeAlias = Callable[[], Awaitable[None]]
"Tells the platform that a delivery was taken; twice does no harm."

OK, BAD_REQUEST, UNAUTHORIZED, UNAVAILABLE = 200, 400, 401, 503
_PENDING_MAX: Final = 10_000


class DeliveryAnswer(Struct, frozen=True, kw_only=True):
    """The answer to one delivery."""

    status: int
    "Of HTTP; 200 when what came is durable, or settled that it never will be."
    body: bytes | None = None
    "JSON, or nothing, where the platform reads it; None = whatever says that it was taken."
    media_type: str = "application/json"
    "Of the body."


def is_signed(signature: str, signed: bytes, secret: bytes, *, prefix: str) -> bool:
    """Return whether a signature is the HMAC-SHA-256 of some bytes; takes as long wherever not.

    Args:
        signature: As the delivery shows it; empty = it shows none.
        signed: What it is of.
        secret: Of the channel.
        prefix: What stands before the hexadecimal digits: `sha256=`.

    >>> is_signed("v0=00", b"hello", b"secret", prefix="v0=")
    False
    """
    wanted = prefix + hmac.new(secret, signed, sha256).hexdigest()
    return hmac.compare_digest(signature.encode("utf-8", "replace"), wanted.encode())


async def answered(
    take: Callable[[Confirm], Awaitable[None]], *, within_s: float, taken: DeliveryAnswer
) -> DeliveryAnswer:
    """Have a delivery taken, and return its answer once it is confirmed.

    Args:
        take: Puts what it brings into the queues; calls what it is given once all of it is settled.
        within_s: So long the platform waits. What takes longer is delivered again, and known then.
        taken: The answer to one that was taken.

    Raises:
        ChannelError: As `take`.
    """
    is_taken = anyio.Event()

    async def confirm() -> None:
        is_taken.set()

    await take(confirm)
    with anyio.move_on_after(within_s):
        await is_taken.wait()
        return taken
    return DeliveryAnswer(status=UNAVAILABLE)


class Confirmations:
    """What has to be told to a platform once something is durable."""

    def __init__(self) -> None:
        self._pending: OrderedDict[Hashable, list[Confirm]] = OrderedDict()

    def expect(self, key: Hashable, confirm: Confirm) -> None:
        """Confirm a delivery once what it brings is settled; the same may come several times."""
        self._pending.setdefault(key, []).append(confirm)
        if len(self._pending) > _PENDING_MAX:
            self._pending.popitem(last=False)  # it comes again

    def forget(self, key: Hashable) -> None:
        """Confirm nothing: it comes again."""
        self._pending.pop(key, None)

    async def settle(self, key: Hashable) -> None:
        """Confirm all deliveries of what is durable now."""
        for confirm in self._pending.pop(key, ()):
            await confirm()


def once_all(confirm: Confirm, count: int) -> Confirm:
    """Return what confirms a delivery when it was called so often: once for each thing in it."""
    left = count

    async def one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            await confirm()

    return one
