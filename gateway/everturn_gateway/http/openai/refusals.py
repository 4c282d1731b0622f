"""Refuses requests of OpenAI's clients. Pure."""

from __future__ import annotations

from typing import NoReturn

from everturn_gateway.http.problems import ProblemError, problem


def refuse(param: str, detail: str) -> NoReturn:
    """Refuse a request because of `param`.

    Raises:
        ProblemError: Always (400).
    """
    raise ProblemError(problem("invalid-request", detail, extra={"param": param}))
