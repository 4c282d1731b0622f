"""Counts what an agent's model calls use, and refuses more than its owner wants for a day."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from anyio import get_cancelled_exc_class
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest, Reply, Usage
from everturn_actors.ports import Clock, ModelProvider, counted_by
from everturn_actors.spec import ModelSpec
from everturn_gateway.usage.ledger import Tally, UsageLedger
from everturn_gateway.usage.prices import NANODOLLARS, Price, PriceList, model_label
from everturn_gateway.usage.spending import Spending, next_midnight

logger = logging.getLogger(__name__)

REPORT_COST: Final = frozenset(("openrouter",))  # they say with each reply what it cost


class UsageLimitError(ModelRefusedError):
    """The agent, or whoever pays for the session, has used up what it may use in a day."""


class DailyLimit(Struct, frozen=True, kw_only=True):
    """What an agent may use from midnight to midnight, UTC; None = any amount.

    A call is refused when the limit is reached, not one that would pass it: nobody knows before
    what a call will use. Calls that are under way at that moment, several at once where there are
    several conversations, come on top.
    """

    cost_usd: float | None = None
    tokens: int | None = None
    "In and out together."

    def reached_by(self, used: Tally) -> str:
        """Return which limit `used` has reached, in words; empty = none."""
        spent_usd = used.cost_nanodollars / NANODOLLARS
        if self.cost_usd is not None and spent_usd >= self.cost_usd:
            return f"its daily limit of ${self.cost_usd:g} (${spent_usd:.4f} spent)"
        if self.tokens is not None and used.tokens >= self.tokens:
            return f"its daily limit of {self.tokens:,} tokens ({used.tokens:,} used)"
        return ""


_NO_LIMIT: Final = DailyLimit()


class Meter:
    """What the metered models of a gateway share."""

    def __init__(
        self,
        *,
        ledger: UsageLedger,
        prices: PriceList,
        clock: Clock,
        spending: Spending | None = None,
    ) -> None:
        self.ledger = ledger
        self.prices = prices
        self.clock = clock
        self.spending = spending
        "What principals spend; None = nobody counts it."
        self._warned: set[str] = set()

    def metered(
        self, provider: ModelProvider, *, agent: str, model: ModelSpec, limit: DailyLimit
    ) -> ModelProvider:
        """Return `provider`, which is `model`'s, with every call of `agent` counted."""
        return Metered(provider, meter=self, agent=agent, model=model, limit=limit)

    def unpriced(self, model: ModelSpec) -> tuple[str, ...]:
        """Return which of a model and its fallbacks have no known price, as `provider/name`."""
        return tuple(
            model_label(each)
            for each in (model, *model.fallbacks)
            if each.provider not in REPORT_COST and self.prices.price(each) is None
        )

    def refuse_beyond(self, limit: DailyLimit, agent: str) -> None:
        """Let through what an agent, and whoever pays for the session, may still use today.

        Raises:
            UsageLimitError: It is used up; says when there is a new one.
        """
        if self.spending is not None:
            spent = self.spending.reached(self.spending.payer())
            if spent is not None:
                msg = f"{spent}, or with a token that allows more"
                raise UsageLimitError(msg)
        reached = "" if limit == _NO_LIMIT else limit.reached_by(self.ledger.today(agent))
        if not reached:
            return
        again = next_midnight(self.clock.now())
        msg = (
            f"agent {agent!r} has used up {reached};"
            f" it goes on at {again:%Y-%m-%d %H:%M} UTC,"
            " or when spec.usage in its agent.yaml allows more"
        )
        raise UsageLimitError(msg)

    def add(
        self, agent: str, label: str, usage: Usage, *, priced: bool, saved_nanodollars: int = 0
    ) -> None:
        """Count one call of an agent, for whoever pays for the session as well. Never raises."""
        try:
            self.ledger.add(agent, label, usage, priced=priced, saved_nanodollars=saved_nanodollars)
            payer = self.spending.payer() if self.spending is not None else ""
            if self.spending is not None and payer:
                self.spending.add(payer, agent, label, usage, priced=priced)
        except (Exception, get_cancelled_exc_class()):  # a boundary: the answer counts more
            logger.exception("a call could not be counted", extra={"agent": agent})

    def warn_unpriced(self, model: str) -> None:
        """Say once that a model's calls count as nothing against limits of cost."""
        if model not in self._warned:
            self._warned.add(model)
            logger.warning("what a model costs is not known", extra={"model": model})


class Metered:
    """A `ModelProvider` whose calls are counted, priced and limited."""

    def __init__(
        self,
        provider: ModelProvider,
        *,
        meter: Meter,
        agent: str,
        model: ModelSpec,
        limit: DailyLimit,
    ) -> None:
        self._provider = provider
        self._meter = meter
        self._agent = agent
        self._model = model
        self._limit = limit

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply, its cost in `Reply.usage`; see `ModelProvider.complete`.

        A call that fails or is cancelled counts as nothing: what it used is not told, though the
        provider may charge for it.

        Raises:
            UsageLimitError: The agent has used up its limit of today; says when there is a new one.
        """
        self._meter.refuse_beyond(self._limit, self._agent)
        reply = await self._provider.complete(request, on_text)
        answered = self._answered(reply)
        # Some providers say with a reply what it cost.
        price = None if reply.usage.cost_nanodollars else self._meter.prices.price(answered)
        usage, priced = _priced(reply.usage, price)
        label = model_label(answered)
        if not priced:
            self._meter.warn_unpriced(label)
        if request.purpose:
            label = f"{label} ({request.purpose})"
        saved = 0 if price is None else _saved(usage, price)
        self._meter.add(self._agent, label, usage, priced=priced, saved_nanodollars=saved)
        return reply if usage == reply.usage else replace(reply, usage=usage)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`. It is free."""
        return await counted_by(self._provider, request)

    def _answered(self, reply: Reply) -> ModelSpec:
        """Return which of the model and its fallbacks gave this reply."""
        for each in self._model.fallbacks:
            if reply.fallback and model_label(each) == reply.fallback:
                return each
        return self._model


def _priced(usage: Usage, price: Price | None) -> tuple[Usage, bool]:
    """Return the usage with its cost, and whether that is known; None = no list says a price."""
    if usage.cost_nanodollars:
        return usage, True
    if price is None:
        return usage, False
    if price.is_free:
        return usage, True
    cost = price.nanodollars(usage)
    is_told = bool(usage.input_tokens or usage.output_tokens)
    return replace(usage, cost_nanodollars=cost), is_told


def _saved(usage: Usage, price: Price) -> int:
    """Return what caches saved of a call."""
    if not usage.cached_tokens and not usage.cache_written_tokens:
        return 0
    return price.saved_nanodollars(usage)
