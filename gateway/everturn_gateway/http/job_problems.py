"""The problems that answer what a request says of a scheduled job."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from everturn_gateway.errors import Fault
from everturn_gateway.http.problems import Problem, ProblemError, invalid, problem
from everturn_gateway.scheduler.errors import JobFixedError, JobRefusedError, UnknownJobError
from everturn_gateway.scheduler.places import Places
from everturn_gateway.scheduler.run_logs.files import DamagedLogError

_STEP: Final = re.compile(r"[^.\[\]]+")
_TAKEN: Final = "id"  # the one field of a checked body that others may have used


@contextmanager
def answering_problems(places: Places) -> Generator[None]:
    """Answer with a problem where the scheduler refuses something or cannot write it.

    Raises:
        ProblemError: The answer.
    """
    try:
        yield
    except UnknownJobError as error:
        raise ProblemError(problem("unknown-schedule", str(error))) from error
    except JobFixedError as error:
        raise ProblemError(problem("schedule-fixed", places.without_paths(str(error)))) from error
    except JobRefusedError as error:
        raise ProblemError(_refused(error, places)) from error
    except DamagedLogError as error:
        raise ProblemError(problem("journal-damaged", places.without_paths(str(error)))) from error
    except OSError as error:
        raise ProblemError(
            problem(
                "not-written",
                f"it could not be written to disk: {error.strerror or type(error).__name__}",
            )
        ) from error


def cannot_run(error: JobRefusedError, places: Places) -> Problem:
    """Return the problem of a job that cannot run now."""
    return problem("schedule-waits", places.without_paths(str(error)))


def _refused(error: JobRefusedError, places: Places) -> Problem:
    errors = [_field_error(fault, places) for fault in error.faults]
    if any(fault.field == _TAKEN for fault in error.faults):
        return problem("schedule-taken", places.without_paths(str(error)), extra={"errors": errors})
    named = [
        f"{each['pointer']}: {each['detail']}" if fault.field else each["detail"]
        for fault, each in zip(error.faults, errors, strict=True)
    ]
    return invalid("; ".join(named) or places.without_paths(str(error)), *errors)


def _field_error(fault: Fault, places: Places) -> dict[str, str]:
    """Return a fault with its place in the body; names of fields need no escapes (RFC 6901)."""
    steps = "".join(f"/{step}" for step in _STEP.findall(fault.field))
    return {"detail": places.without_paths(fault.message), "pointer": f"#{steps}"}
