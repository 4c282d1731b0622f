"""What Meta's error codes mean, whether they are answered or come with a status later. Pure.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes
(updated 2026-06-18, read 2026-11-27), and .../throughput for 130429.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_channels.errors import NotSentError, RefusedError, SendError
from everturn_channels.ingestion.json_fields import Json, number_of, text_of

WINDOW: Final = 131047
"More than 24 hours passed since the person last wrote: only templates are taken."
PAIR: Final = 131056
"Too many messages to one person within a short time."
PAIR_S: Final = 6.0
"So long one person is left alone then: Meta speaks of one message every six seconds."
TOKEN: Final = frozenset({0, 190})
_RIGHTS: Final = frozenset({3, 10, 131005, *range(200, 300)})
_OWNER: Final = frozenset({33, 368, 131031, 131037, 131042, 131045, 133010})
"The number or its account is blocked, not paid for, or not registered."
_BUSY: Final = {4: 60.0, 80007: 60.0, 130429: 1.0}
"How long the whole number is quiet; the first two are limits of an hour."
_LATER: Final = frozenset({1, 2, PAIR, 131000, 131016, 131048, 131057, 133004})
_GONE: Final = frozenset({131026, 131030, 130497})
"The person cannot be reached: not on WhatsApp, blocked the number, or may not be written to."
_WORDS_MAX: Final = 300  # characters of what people are shown


class Failure(Struct, frozen=True, kw_only=True):
    """Why something was not done, as Meta says it."""

    code: int
    words: str = ""

    def __str__(self) -> str:
        return f"{self.words} ({self.code})" if self.words else f"error {self.code}"

    @property
    def needs_owner(self) -> bool:
        """Whether the owner has to change something before anything can be said."""
        return self.code in TOKEN | _RIGHTS | _OWNER


def failure_of(raw: Json) -> Failure | None:
    """Return an error of Meta's as a value; None where it has no code."""
    code = number_of(raw, "code")
    if code is None:
        return None
    title = text_of(raw, "title") or text_of(raw, "message")
    details = text_of(raw, "error_data", "details")
    words = ": ".join(dict.fromkeys(filter(None, (title, details))))
    return Failure(code=code, words=" ".join(words.split())[:_WORDS_MAX])


def to_send_error(failure: Failure, *, retry_after_s: float | None = None) -> SendError:
    """Return what a failure means for what was to be sent; `retry_after_s` is Meta's word."""
    if failure.needs_owner:
        return NotSentError(f"WhatsApp does not let the number speak: {failure}.")
    if failure.code in _BUSY:
        wait_s = max(retry_after_s or 0.0, _BUSY[failure.code])
        return NotSentError(f"WhatsApp takes less now: {failure}.", retry_after_s=wait_s)
    if failure.code == WINDOW:
        words = f"WhatsApp takes it only once the person writes again: {failure}."
        return NotSentError(words)
    if failure.code in _LATER:
        return NotSentError(f"WhatsApp does not take it now: {failure}.")
    words = f"WhatsApp does not take it: {failure}."
    return RefusedError(words, is_chat_gone=failure.code in _GONE)
