"""Which built-in tools an agent is offered. Pure."""

from __future__ import annotations

from typing import Final

from everturn_actors.context.estimation.windows import input_window
from everturn_actors.ports import Tool
from everturn_actors.spec import AgentSpec
from everturn_gateway.tools.recall import PAGE_CHARACTERS, RecallContext

_CANNOT_CALL: Final = frozenset(("local",))
"Providers whose models call no tools."
_WHEN_ASKED_FOR: Final = frozenset(("builtin", "scripted"))
"Providers without a model, which call what they are told: it is there if the agent asks for it."
_RESULT_CAPS: Final = ("max_tool_result_tokens", "evict_result_tokens", "max_output_tokens")
"Numbers of the policies above which a result is shortened or goes to a file."
_RESULT_SHARE: Final = 0.125  # of the window, where the agent does not say
_PAGE_CHARACTERS_MIN: Final = 200


def is_recall_offered(spec: AgentSpec) -> bool:
    """Return whether an agent is offered `recall_context`.

    Its model has to be one that can call tools; `spec.session.context.recall` says no, or, for the
    built-in responder and a scripted model, yes.
    """
    provider, wish = spec.model.provider, spec.session.context.recall
    if provider in _CANNOT_CALL:
        return False
    if provider in _WHEN_ASKED_FOR:
        return wish is True
    return wish is not False


def recall_page_characters(spec: AgentSpec) -> int:
    """Return how much `recall_context` may answer at once, so that no policy cuts it again.

    A quarter below the agent's cap for a result stays free for what stands around a page.
    """
    numbers = spec.session.context.numbers
    caps = [int(numbers[name]) for name in _RESULT_CAPS if name in numbers]
    caps.append(int(input_window(spec.model) * numbers.get("max_result_share", _RESULT_SHARE)))
    most = min(PAGE_CHARACTERS, min(caps) * 3 // 4)
    return max(most, _PAGE_CHARACTERS_MIN)


def tools_for(spec: AgentSpec) -> dict[str, Tool]:
    """Return the built-in tools of an agent, by name."""
    tools: list[Tool] = []
    if is_recall_offered(spec):
        tools.append(RecallContext(page_characters=recall_page_characters(spec)))
    return {tool.definition.name: tool for tool in tools}
