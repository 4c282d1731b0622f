"""`everturn model`: what was learnt about models, and how it is forgotten.

A running gateway is asked; without one, what it left is read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from everturn_actors.context.estimation.calibration import Hint
from everturn_actors.state.serialization import utc_text
from everturn_channels.names import clean
from everturn_gateway.app import open_keyed
from everturn_gateway.client.models import ask_models, forget_models
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.agents import check_agents
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.moments import minute_text
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.settings import admin_token, api_token, load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.model_statistics import KEY, KnownModel, label_of, look_up


def list_models(options: Options, *, as_json: bool) -> int:
    """Print what is known of each model that was used; return the exit code."""
    config = load(options)

    async def main() -> int:
        known = await _known(config)
        if as_json:
            print_json([_record(each) for each in known])
        elif known:
            print_table(
                ("model", "window", "took", "limit", "tools"), [_row(each) for each in known]
            )
        else:
            sys.stdout.write("nothing yet; it is learnt when agents are used\n")
        return EXIT_OK

    return run_async(main)


def show_model(options: Options, name: str, *, as_json: bool) -> int:
    """Print all that is known of one model, at each of its addresses; return the exit code.

    Raises:
        GatewayError: Nothing is known of it.
    """
    config = load(options)
    counters = _counters(config)

    async def main() -> int:
        found = [each for each in await _known(config) if _is_named(each.label, name)]
        if not found:
            msg = f"nothing was learnt about {name!r}; `everturn model list` has all names"
            raise GatewayError(msg)
        if as_json:
            print_json(
                [{**_record(each), "tokenizers": counters.get(each.label, {})} for each in found]
            )
        else:
            lines = (_lines(each, counters.get(each.label, {})) for each in found)
            print_line("\n\n".join("\n".join(each) for each in lines))
        return EXIT_OK

    return run_async(main)


def forget(options: Options, name: str, endpoint: str, *, as_json: bool = False) -> int:
    """Forget what refusals taught; return the exit code, 1 where there was nothing to forget.

    Raises:
        GatewayError: It could not be written.
    """
    config = load(options)

    async def main() -> int:
        running = await find_running(config.workspace)
        if running is not None:
            found: Sequence[KnownModel] = await forget_models(
                running.url, token=_token(config), model=name, endpoint=endpoint
            )
        else:
            async with open_keyed(config, is_change=True) as keyed:
                model_statistics = await look_up(keyed, SystemClock())
                found = model_statistics.forget(name, endpoint)
                if not await model_statistics.save():
                    msg = f"{keyed.place(KEY)} cannot be written; nothing is forgotten"
                    raise GatewayError(msg)
        if as_json:
            print_json({"models": [_record(each) for each in found]})
            return EXIT_OK if found else EXIT_FAILED
        for each in found:
            print_line(f"forgotten: {clean(each.label)}: {_hints(each)}")
        if not found:
            print_line("there is nothing to forget")
        return EXIT_OK if found else EXIT_FAILED

    return run_async(main)


async def _known(config: Config) -> Sequence[KnownModel]:
    running = await find_running(config.workspace)
    if running is not None:
        return await ask_models(running.url, token=_token(config))
    async with open_keyed(config, is_change=False) as keyed:
        return (await look_up(keyed, SystemClock())).known()


def _token(config: Config) -> str:
    return admin_token(config) or api_token(config)


def _is_named(label: str, name: str) -> bool:
    model = label.partition(" at ")[0]
    return name in {label, model, model.partition("/")[2]}


def _record(known: KnownModel) -> dict[str, object]:
    statistics = known.statistics
    return {
        "model": known.label,
        "scale": round(statistics.scale, 3),
        "reports": statistics.reports,
        "window_tokens": statistics.window_tokens,
        "proven_tokens": statistics.proven_tokens,
        "limit": _hint_record(statistics.limit),
        "no_tools": _hint_record(statistics.no_tools),
        "observed_at": known.observed_at,
    }


def _hint_record(hint: Hint | None) -> dict[str, object] | None:
    if hint is None:
        return None
    return {
        "tokens": hint.tokens,
        "said": hint.said,
        "observed_at": utc_text(hint.observed_at),
        "expires_at": utc_text(hint.expires_at),
        "times": hint.times,
        "in_force": not hint.is_over,
    }


def _row(known: KnownModel) -> tuple[str, ...]:
    statistics = known.statistics
    limit, no_tools = statistics.limit, statistics.no_tools
    return (
        clean(known.label),
        f"{statistics.window_tokens:,}" if statistics.window_tokens else "not told",
        f"{statistics.proven_tokens:,}" if statistics.proven_tokens else "-",
        f"{limit.tokens:,} until {_moment(limit)}" if limit and not limit.is_over else "-",
        f"none until {_moment(no_tools)}" if no_tools and not no_tools.is_over else "yes",
    )


def _counters(config: Config) -> dict[str, dict[str, str]]:
    """Return which tokenizers' files count a model's prompts, by its label: by agent."""
    try:
        agents, _ = check_agents(config)
    except GatewayError:  # what was learnt is there without any agent
        return {}
    found: dict[str, dict[str, str]] = {}
    for agent in agents:
        for model in (agent.spec.model, *agent.spec.model.fallbacks):
            if model.tokenizer:
                found.setdefault(label_of(model), {})[agent.spec.name] = model.tokenizer
    return found


def _lines(known: KnownModel, counters: Mapping[str, str]) -> list[str]:
    statistics = known.statistics
    told = (
        f"{statistics.window_tokens:,} tokens"
        if statistics.window_tokens
        else "its server did not tell"
    )
    observed = (
        f"learnt from {statistics.reports:,} reports"
        if statistics.reports
        else "a guess by its name"
    )
    lines = [
        f"model   {clean(known.label)}",
        f"window  {told}",
        f"took    {statistics.proven_tokens:,} tokens at most",
        f"scale   {statistics.scale:.3g} tokens for one estimated, {observed}",
        f"counted {_counted(counters)}",
    ]
    if statistics.limit is not None:
        lines.append(f"limit   {statistics.limit.tokens:,} tokens, {_source(statistics.limit)}")
    if statistics.no_tools is not None:
        lines.append(f"tools   refused, {_source(statistics.no_tools)}")
    return lines


def _counted(counters: Mapping[str, str]) -> str:
    """Return by whom prompts are counted, in words."""
    exact = ", ".join(f"{clean(file)} of {clean(name)}" for name, file in counters.items())
    return "by an estimate; near the edge of the window " + (
        f"exactly, by {exact}" if exact else "by its provider, where that counts prompts"
    )


def _hints(known: KnownModel) -> str:
    limit, no_tools = known.statistics.limit, known.statistics.no_tools
    found = [
        *((f"the limit of {limit.tokens:,} tokens",) if limit else ()),
        *(("that it refused tools",) if no_tools else ()),
    ]
    return " and ".join(found) or "how large a prompt it took"


def _source(hint: Hint) -> str:
    until = "over, it is tried again" if hint.is_over else f"until {_moment(hint)}"
    return f"{until}; said {hint.times} times in a row, last: {clean(hint.said)}"


def _moment(hint: Hint) -> str:
    return minute_text(hint.expires_at)
