"""What is to be said of agents, as their files stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everturn_actors.context.estimation.windows import hint_notes
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.doctor.logins import sampling_notes
from everturn_gateway.doctor.sandbox import sandbox_notes
from everturn_gateway.errors import Fault
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.model_statistics import StoredModelStatistics
from everturn_gateway.specs import AgentFile
from everturn_gateway.tools.config import hidden_notes, policy_notes, reaches_out


def agent_findings(
    config: Config,
    secrets: SecretRegistry,
    agents: Sequence[AgentFile],
    faults: Sequence[Fault],
    statistics: StoredModelStatistics | None,
) -> list[Finding]:
    """Return what is to be said of agents. Starts processes: not for the event loop."""
    found = [Finding(verdict="problem", subject="agent", text=str(fault)) for fault in faults]
    if not agents and not faults:
        text = f"none in {config.agents_dir}; `everturn init` creates one"
        found.append(Finding(verdict="problem", subject="agent", text=text))
    names = {agent.spec.name for agent in agents}
    for name in sorted(config.sessions.keep.agents.keys() - names):
        text = f"sessions.keep has limits for {name!r}, and there is no such agent"
        found.append(Finding(verdict="note", subject="agent", text=text))
    for agent in agents:
        name, model = agent.spec.name, agent.spec.model
        text = f"{name}: {model.provider} / {model.name}"
        found.append(Finding(verdict="ok", subject="agent", text=text))
        found += [
            Finding(verdict="note", subject="agent", text=f"{name}: {note}")
            for note in _notes(config, secrets, agent, statistics)
        ]
    return found


def _notes(
    config: Config,
    secrets: SecretRegistry,
    agent: AgentFile,
    statistics: StoredModelStatistics | None,
) -> Iterator[str]:
    if statistics is not None:
        yield from hint_notes(agent.spec.model, statistics.of(agent.spec.model))
    yield from sandbox_notes(config, agent, secrets)
    yield from (f"policy: {note}" for note in policy_notes(agent.tool_config))
    yield from hidden_notes(agent.tool_config)
    yield from sampling_notes(agent)
    if risk := _strangers_may(agent):
        yield f"anybody may write to it (spec.access: open), and {risk}"
    if agent.inactive:
        yield f"without effect: {', '.join(agent.inactive)}"


def _strangers_may(agent: AgentFile) -> str:
    """Return what people may do whom nobody let in, with tools that reach beyond the agent's files.

    Empty where that is nothing.
    """
    tools, rules = agent.tool_config, agent.access
    is_open = "open" in {rules.dm.policy, rules.groups.policy}
    if not is_open or not reaches_out(tools):
        return ""
    if tools.policy.mode == "dangerous":
        return "its calls run without a question (mode: dangerous)"
    if tools.policy.mode == "ask" and not tools.policy.approvers:
        return "whoever writes may allow what they asked for; name approvers in policy.yaml"
    return ""
