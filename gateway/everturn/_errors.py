"""Errors of the facade."""

from __future__ import annotations

from everturn_actors.errors import CoreError
from everturn_actors.service import TurnResult


class TurnFailedError(CoreError):
    """The agent gave no answer.

    The message is kept, and so is what the turn did: the conversation goes on with the next one.

    Attributes:
        result: How the turn came out; `result.outcome` is `failed`, `cancelled` or `interrupted`.
    """

    def __init__(self, result: TurnResult) -> None:
        self.result = result
        super().__init__(result.error or f"the turn was {result.outcome}")
