"""One call to a model, to see that it answers, whether it calls tools, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.errors import ModelError, ModelRefusedError
from everturn_actors.model import ModelRequest, Reply, ToolDefinition, UserMessage
from everturn_actors.ports import ModelProvider
from everturn_actors.spec import ModelSpec
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import installed
from everturn_gateway.providers import open_providers
from everturn_gateway.usage import PriceList
from everturn_gateway.usage.prices import NANODOLLARS

_SHOWN: Final = 80  # characters of an answer
_WAIT_S: Final = 120.0  # a server on this machine may have to load the model first
_TOOL: Final = ToolDefinition(
    name="clock",
    description="Tells the time.",
    parameters={"type": "object", "properties": {}},
)
_ASKED: Final = ModelRequest(
    model="",
    system="",
    messages=(UserMessage(text="Say hello in at most five words."),),
    tools=(_TOOL,),
)


class Tried(Struct, frozen=True, kw_only=True):
    """How a model answered."""

    said: str
    took_s: float
    takes_tools: bool
    cost_usd: float | None
    "None = nobody said what it takes."


def described_try(tried: Tried) -> str:
    """Return how a model answered, for people."""
    said = " ".join(tried.said.split())[:_SHOWN] or "(no words)"
    match tried.cost_usd:
        case None:
            cost = "what it costs is not known; prices in everturn.yaml tell it"
        case 0:
            cost = "free"
        case dollars:
            cost = f"${dollars:.6f} for this call"
    no_tools = (
        ""
        if tried.takes_tools
        else "\nIt refuses requests with tools: its agent can talk, and do nothing else."
    )
    return f"It answers in {tried.took_s:.1f} s: “{said}” ({cost}){no_tools}"


def try_record(tried: Tried) -> dict[str, object]:
    """Return how a model answered, as JSON tells it."""
    return {
        "text": tried.said,
        "took_s": round(tried.took_s, 3),
        "takes_tools": tried.takes_tools,
        "cost_usd": tried.cost_usd,
    }


async def try_model(model: ModelSpec, config: Config, environ: Mapping[str, str]) -> Tried:
    """Ask a model for a word.

    Raises:
        ModelError: It gave none; says why.
        GatewayError: It cannot be asked as it is set up.
    """
    began = anyio.current_time()
    failed: ModelError | GatewayError | None = None
    reply, takes_tools = Reply(), True
    async with open_providers(
        environ=environ, models_dir=config.workspace / "models", settings=config.providers
    ) as providers:
        try:
            async with slow_progress(f"waiting for {model.name}"):
                provider = await anyio.to_thread.run_sync(providers.make, model, Path.cwd())
                reply, takes_tools = await _ask(provider, model)
        except (ModelError, GatewayError) as error:  # raised outside their tasks, which wrap it
            failed = error
    if failed is not None:
        raise failed
    price = PriceList(config.prices, installed().providers.get).price(model)
    cost = reply.usage.cost_nanodollars or None
    if cost is None and price is not None:
        cost = price.nanodollars(reply.usage)
    return Tried(
        said=reply.text.strip(),
        took_s=anyio.current_time() - began,
        takes_tools=takes_tools,
        cost_usd=None if cost is None else cost / NANODOLLARS,
    )


async def _ask(provider: ModelProvider, model: ModelSpec) -> tuple[Reply, bool]:
    asked = replace(_ASKED, model=model.name)
    try:
        with anyio.fail_after(_WAIT_S):
            try:
                return await provider.complete(asked, _unread), True
            except ModelRefusedError:  # some servers refuse every request that has tools
                return await provider.complete(replace(asked, tools=()), _unread), False
    except TimeoutError as error:
        msg = f"{model.name} gave no answer within {_WAIT_S:g} s"
        raise ModelError(msg) from error


def _unread(_text: str) -> None:
    """Show nothing: the answer is told as a whole."""
