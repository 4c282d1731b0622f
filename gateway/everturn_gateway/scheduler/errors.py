"""Errors of the scheduler."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from everturn_gateway.errors import ConfigError, Fault, GatewayError


class UnknownJobError(GatewayError):
    """There is no such job.

    Attributes:
        job_id: What was asked for.
    """

    def __init__(self, job_id: str, known: Iterable[str] = ()) -> None:
        self.job_id = job_id
        names = sorted(known)
        near = difflib.get_close_matches(job_id[:80], names, n=3)
        some = ", ".join(near or names[:20]) or "none"
        hint = "did you mean" if near else "there are:"
        super().__init__(f"there is no scheduled job {job_id[:80]!r}; {hint} {some}")


class NotWrittenError(OSError):
    """What happened to a run could not be written down; the same step is done again."""


class JobRefusedError(ConfigError):
    """A job cannot be as it is described; nothing was changed. The caller acts.

    Attributes:
        faults: What is wrong, by field.
    """

    def __init__(self, message: str = "", *, faults: Iterable[Fault] = ()) -> None:
        faults = tuple(faults)
        wrong = "; ".join(
            f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults
        )
        super().__init__(message or wrong, faults=faults)


class JobFixedError(GatewayError):
    """The job is defined where it cannot be changed from here; the text names the place."""
