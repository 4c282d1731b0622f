"""A model that is out of reach is replaced by the next one its agent names, and left alone a while.

What counts as an outage: the model cannot be reached, is overloaded, limits how much is sent, broke
off, refuses the key, or has no money left on the account. A request that it refuses for what stands
in it is none: that is for the turn to set right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import Struct, structs

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    QuotaExhaustedError,
    ToolsRefusedError,
)
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.ports import ModelProvider, counted_by
from everturn_actors.spec import ModelSpec

logger = logging.getLogger(__name__)

FIRST_COOL_DOWN_S: Final = 10.0  # doubled with every failure in a row
MAX_COOL_DOWN_S: Final = 600.0
MAX_ASKED_S: Final = 3600.0  # of what a provider asks for; some say a day, and mean "not now"

_Key: TypeAlias = tuple[str, str, str]  # provider, address, name


class _Heat(Struct):
    """What is remembered of a model that failed."""

    failures: int = 0
    "In a row."
    until: float = 0.0
    "It is left alone until then."


class CoolDowns:
    """Which models are left alone, and until when; shared by all agents, kept in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin with all models available; `now` tells the time in seconds and never goes back."""
        self._now = now
        self._heats: dict[_Key, _Heat] = {}

    def is_cooling(self, model: ModelSpec) -> bool:
        """Whether a model is to be left alone now."""
        heat = self._heats.get(_key(model))
        return heat is not None and self._now() < heat.until

    def begin(self, model: ModelSpec) -> int:
        """Return how often a model has failed in a row, now that it is called.

        The first call after a cool-down is a probe: until it is answered, the model goes on being
        left alone by all others.
        """
        heat = self._heats.get(_key(model))
        if heat is None:
            return 0
        if heat.until <= self._now():
            heat.until = self._now() + _cool_down_s(heat.failures)
        return heat.failures

    def failed(self, model: ModelSpec, failures: int, asked_s: float | None) -> None:
        """Leave a model alone.

        Args:
            model: The model.
            failures: What `begin` returned. Calls that failed together count as one.
            asked_s: How long its provider asked to wait.
        """
        heat = self._heats.setdefault(_key(model), _Heat())
        if heat.failures == failures:
            heat.failures += 1
        delay_s = max(_cool_down_s(heat.failures), min(asked_s or 0.0, MAX_ASKED_S))
        heat.until = max(heat.until, self._now() + delay_s)

    def worked(self, model: ModelSpec) -> None:
        """Forget what a model failed in."""
        self._heats.pop(_key(model), None)


class Choice(Struct, frozen=True, kw_only=True):
    """One model that can be asked."""

    model: ModelSpec
    provider: ModelProvider

    @property
    def label(self) -> str:
        """How it is called in `Reply.fallback` and in logs."""
        return f"{self.model.provider}/{self.model.name}"


class Fallbacks:
    """A `ModelProvider` that asks the agent's own model, and on an outage the next at once.

    A model that cools down is asked only where all the others failed. Nothing is asked any more
    once a piece of text was passed on: what was shown cannot be taken back.
    """

    def __init__(self, own: Choice, others: Sequence[Choice], *, cooling: CoolDowns) -> None:
        self._own = own
        self._others = tuple(others)
        self._cooling = cooling

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        `Reply.fallback` names the model where it is not the agent's own. What a fallback refuses
        (too small a window, no tools) never looks as if the agent's own model had refused it.

        Raises:
            ModelError: All failed. It is the own model's error, which tells also what the others
                said; it may pass if any of them may.
        """
        failures: list[tuple[Choice, ModelError]] = []
        for choice in self._in_order():
            _log_change(failures, choice)
            shown = Shown(on_text)
            before = self._cooling.begin(choice.model)
            try:
                reply = await choice.provider.complete(self._addressed(request, choice), shown)
            except ModelError as error:
                is_out = _is_outage(error)
                if is_out:
                    self._cooling.failed(choice.model, before, error.retry_after_s)
                if choice is self._own and not is_out:
                    raise
                if shown.any:
                    raise _not_of_the_own(error) from error
                failures.append((choice, error))
            else:
                self._cooling.worked(choice.model)
                return (
                    reply if choice is self._own else structs.replace(reply, fallback=choice.label)
                )
        raise self._all_failed(failures) from failures[0][1]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what the agent's own model would count; see `PromptCounter.count_tokens`."""
        return await counted_by(self._own.provider, request)

    def _in_order(self) -> list[Choice]:
        choices = (self._own, *self._others)
        return sorted(choices, key=lambda choice: self._cooling.is_cooling(choice.model))

    def _addressed(self, request: ModelRequest, choice: Choice) -> ModelRequest:
        """Return the request as `choice` is to get it.

        What its caller chose for this request alone, as a summary does, holds for every model.
        """
        if choice is self._own:
            return request
        own, model = self._own.model, choice.model
        limits = [n for n in (request.max_output_tokens, model.max_output_tokens) if n is not None]
        is_usual = request.max_output_tokens == own.max_output_tokens
        return replace(
            request,
            model=model.name,
            temperature=(
                model.temperature if request.temperature == own.temperature else request.temperature
            ),
            max_output_tokens=(model.max_output_tokens if is_usual else min(limits, default=None)),
            reasoning_effort=model.reasoning_effort,
            makes_images=model.makes_images,
        )

    def _all_failed(self, failures: Sequence[tuple[Choice, ModelError]]) -> ModelError:
        own = next(error for choice, error in failures if choice is self._own)
        others = [(choice, error) for choice, error in failures if choice is not self._own]
        said = "".join(f"; fallback {choice.label}: {error}" for choice, error in others)
        passing = [error for _, error in failures if error.retryable]
        kind = own if own.retryable or not passing else passing[0]
        combined = kind.with_text(f"{own}{said}")
        waits = [error.retry_after_s for error in passing]
        known = [wait for wait in waits if wait is not None]
        # The next try may go to whichever can take it first.
        combined.retry_after_s = min(known) if known and len(known) == len(waits) else None
        return combined


class Shown:
    """Passes text on, and knows whether there was any."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self.any = False

    def __call__(self, piece: str) -> None:
        """Pass a piece on."""
        self.any = self.any or bool(piece)
        self._on_text(piece)


def _key(model: ModelSpec) -> _Key:
    return model.provider, model.base_url, model.name


def _cool_down_s(failures: int) -> float:
    doublings = min(max(failures - 1, 0), 16)  # far beyond the maximum
    return min(FIRST_COOL_DOWN_S * 2.0**doublings, MAX_COOL_DOWN_S)


def _is_outage(error: ModelError) -> bool:
    return error.retryable or isinstance(error, ModelAuthError | QuotaExhaustedError)


def _not_of_the_own(error: ModelError) -> ModelError:
    """Return what a fallback failed with, so that nothing is learnt of the own model from it."""
    if isinstance(error, ContextOverflowError | ToolsRefusedError):
        return ModelRefusedError(str(error))
    return error


def _log_change(failures: Sequence[tuple[Choice, ModelError]], choice: Choice) -> None:
    if failures:
        failed, error = failures[-1]
        logger.warning(
            "model failed, the next one is asked",
            extra={
                "model": failed.label,
                "error": type(error).__name__,
                "next_model": choice.label,
            },
        )
