"""What a failure says of what was being taken: its own fault, or a matter of time. Pure.

Whether an adapter may confirm something that failed is decided here and nowhere else.
"""

from __future__ import annotations

import errno
from typing import Final, Literal, TypeAlias

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    BusyError,
    CorruptJournalError,
    InvalidInputError,
    JournalError,
    MailboxFullError,
    QueueFullError,
    SessionQuarantinedError,
    UnknownAgentError,
    UnknownFormatError,
    is_group,
)

Disposition: TypeAlias = Literal["resolved", "not now", "unclear"]
"""resolved: it never will be taken as it is, and whoever sent it is told so; it is confirmed.
not now: nothing is wrong with it; it is not confirmed, and tried again for as long as it takes.
unclear: nobody foresaw this; it is tried again a few times, and then settled.
"""

_SETTLED: Final = (
    InvalidInputError,
    # The settings of the conversation have their answer to these, and it was given.
    QueueFullError,
    BusyError,
    # Only the owner can mend these, often with the gateway stopped. A message that waited for that
    # would keep Telegram's offset, and with it every other chat, where it is.
    UnknownAgentError,
    CorruptJournalError,
    UnknownFormatError,
    SessionQuarantinedError,  # here the people of the conversation can, with a command
)
_NOT_NOW: Final = (ActorStoppedError, JournalError, MailboxFullError, TimeoutError)
_SCARCE: Final = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE),
        *(errno.ENOMEM, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ESTALE, errno.ETIMEDOUT),
    )
)
"What a system says when it has too little of something, whatever is asked of it."


def disposition_of(error: BaseException) -> Disposition:
    """Return what a failure says of what was being taken when it happened."""
    if is_group(error):
        found: set[Disposition] = {disposition_of(each) for each in error.exceptions}
        return found.pop() if len(found) == 1 else "unclear"
    if isinstance(error, ActorFailedError):
        return disposition_of(error.cause)  # the session starts afresh with the next try
    if isinstance(error, _SETTLED):
        return "resolved"
    if isinstance(error, _NOT_NOW):
        return "not now"
    if isinstance(error, OSError) and error.errno in _SCARCE:
        return "not now"
    return "unclear"
