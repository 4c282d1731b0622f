"""What a failure says of a message: only a fault of the message itself lets it be confirmed."""

from __future__ import annotations

import errno

from support.tables import table

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    BusyError,
    CorruptJournalError,
    FencedError,
    InvalidInputError,
    JournalWriteError,
    MailboxFullError,
    QueueFullError,
    UnknownAgentError,
)
from everturn_channels.inbound.dispositions import Disposition, disposition_of


@table(
    ("error", "expected"),
    [
        (InvalidInputError(), "resolved"),
        (UnknownAgentError("a"), "resolved"),
        (QueueFullError(), "resolved"),
        (BusyError(), "resolved"),
        (CorruptJournalError("a hole"), "resolved"),
        (TimeoutError(), "not now"),
        (ActorStoppedError(), "not now"),
        (MailboxFullError(), "not now"),
        (JournalWriteError("no space"), "not now"),
        (FencedError("another writer"), "not now"),
        (OSError(errno.EMFILE, "too many open files"), "not now"),
        (OSError(errno.ENAMETOOLONG, "too long a name"), "unclear"),
        (RuntimeError("symlink loop"), "unclear"),
        (ActorFailedError("s", TimeoutError()), "not now"),
        (ActorFailedError("s", JournalWriteError("no space")), "not now"),
        (ActorFailedError("s", ZeroDivisionError()), "unclear"),
        (ExceptionGroup("", [TimeoutError(), MailboxFullError()]), "not now"),
        (ExceptionGroup("", [TimeoutError(), KeyError()]), "unclear"),
    ],
)
def test_a_failure_is_the_messages_own_or_a_matter_of_time(
    error: Exception, expected: Disposition
) -> None:
    """What is confirmed by mistake is gone; what is not by mistake holds up its chat for ever."""
    assert disposition_of(error) == expected
