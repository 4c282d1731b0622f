"""Puts an agent and its tools together."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec.structs import replace

from everturn_actors.context.catalog import unsure_room
from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.prompt import system_prompt
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.ports import Agent
from everturn_gateway.errors import ConfigError
from everturn_gateway.plugins import ToolSettingsError
from everturn_gateway.specs.loading import MODEL_FIELD, AgentFile
from everturn_gateway.tools.factory import ToolFactory
from everturn_gateway.tools.mcp import SamplingModel
from everturn_gateway.tools.memory.plugin import prompt_notes
from everturn_gateway.tools.recall.older import OlderQuotes
from everturn_gateway.tools.recall.selection import quotes_older
from everturn_gateway.tools.searching import SearchingProvider

logger = logging.getLogger(__name__)

TOOLS_FIELD = "spec.tools"


def with_tools(
    agent: Agent,
    file: AgentFile,
    tool_factory: ToolFactory,
    sampling: Mapping[str, SamplingModel],
    statistics: ModelStatistics | None = None,
) -> Agent:
    """Return `agent` with the tools of its file, and the gate before them.

    Reads folders: not for the event loop.

    Args:
        agent: Without tools.
        file: What it is given.
        tool_factory: Makes them.
        sampling: The models that its MCP servers may use, by the server's name.
        statistics: What was learnt of its model; None = nothing was.

    Raises:
        ConfigError: A tool cannot be used as it is set, or the tools leave no room in the model's
            window; with the place that is at fault.
    """
    environment = tool_factory.environment(agent=file.spec.name, home=file.folder, files=file.files)
    window_tokens = input_window(file.spec.model)
    try:
        made = tool_factory.make_tools(
            file.tool_config,
            environment,
            owner_texts=(system_prompt(file.spec.prompt),),
            window_tokens=window_tokens,
            sampling=sampling,
        )
    except ToolSettingsError as error:
        raise ConfigError(faults=[file.fault(TOOLS_FIELD, str(error))]) from error
    tools = tuple(tool.definition for tool in made.tools.values())
    try:
        unsure = unsure_room(file.spec, system_prompt(file.spec.prompt), tools, statistics)
    except ContextDoesNotFitError as error:
        raise ConfigError(faults=[file.fault(MODEL_FIELD, str(error))]) from None
    if unsure:
        logger.warning("an agent may have no room", extra={"agent": file.spec.name, "why": unsure})
    return replace(
        agent,
        provider=SearchingProvider(agent.provider, made.tools),
        tools=made.tools,
        quotes=OlderQuotes(link=environment.link, window_tokens=window_tokens)
        if quotes_older(file.spec)
        else None,
        notes=prompt_notes(file.tool_config, environment, window_tokens=window_tokens),
        gate=made.gate,
        prepare=made.tools.prepare,
        deferred=made.tools.deferred,
    )
