"""`everturn setup --check`: what is set up, and whether it works, in words for newcomers."""

from __future__ import annotations

from functools import partial

from everturn_actors.errors import ModelError, UnknownAgentError
from everturn_gateway.commands.agents import check_agents
from everturn_gateway.commands.first_steps.keyring import Keyring
from everturn_gateway.commands.first_steps.prompts import say
from everturn_gateway.commands.first_steps.trying import described_try, try_model, try_record
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import installed
from everturn_gateway.specs.loading import AgentFile


def check_setup(options: Options, record: dict[str, object]) -> int:
    """Tell what is set up; return the exit code, 1 where something does not work.

    Each agent's model is asked for a word. What is found is noted in `record`.

    Raises:
        GatewayError: Nothing is set up.
    """
    config = load(options)
    say(f"Configuration: {config.path or 'none; the defaults hold'}")
    code = check_models(config, "", record)
    running = run_async(partial(find_running, config.workspace))
    record["config"] = str(config.path) if config.path else None
    record["gateway"] = {"pid": running.pid, "url": running.url} if running else None
    if running is None:
        say("The gateway does not run: `everturn serve` starts it. `everturn chat` does without.")
    else:
        say(f"The gateway runs at {running.url}, as process {running.pid}.")
    say("All of it, in more detail: everturn doctor")
    return code


def check_models(config: Config, name: str, record: dict[str, object]) -> int:
    """Ask the models of one agent, or (empty) all, for a word; return the exit code.

    What is found is noted in `record`.

    Raises:
        UnknownAgentError: There is no such agent.
    """
    agents, faults = check_agents(config)
    chosen = [agent for agent in agents if name in {"", agent.spec.name}]
    if name and not chosen:
        raise UnknownAgentError(name, tuple(agent.spec.name for agent in agents))
    told_faults = [str(fault) for fault in faults if not name]
    for fault in told_faults:
        say(f"An agent cannot be used: {fault}")
    found: list[dict[str, object]] = []
    for agent in chosen:
        checked, text = _check_model(agent, config)
        found.append(checked)
        say(text)
    record.update(models=found, faults=told_faults)
    works = [each["error"] is None for each in found]
    return EXIT_OK if works and all(works) and not told_faults else EXIT_FAILED


def _check_model(agent: AgentFile, config: Config) -> tuple[dict[str, object], str]:
    """Return how a model answers: its fields, and a sentence."""
    model = agent.spec.model
    label = f"{model.provider}/{model.name}"
    record: dict[str, object] = {"agent": agent.spec.name, "model": label, "error": None}
    plugin = installed().providers.get(model.provider)
    if plugin is None or not plugin.is_model:
        text = f"Agent {agent.spec.name}: {label} is no language model; `everturn setup` names one."
        return record, text
    try:
        tried = run_async(partial(try_model, model, config, Keyring(plugin, config).environ))
    except (ModelError, GatewayError) as error:
        why = crash_log.secrets.mask(str(error))
        text = f"Agent {agent.spec.name}: {label} gives no answer: {why}"
        return {**record, "error": why}, text
    text = f"Agent {agent.spec.name}: {label}. {described_try(tried)}"
    return record | try_record(tried), text
