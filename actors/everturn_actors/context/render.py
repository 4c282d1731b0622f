"""From a conversation and an agent to the request that a model gets. Pure.

The same conversation and spec always give the same bytes, so a restart goes on where the process
ended. Rendering costs what is shown, not what is held: token counts are kept with each message.
"""

from __future__ import annotations

from dataclasses import dataclass

from everturn_actors.context.budget import Budget, make_budget
from everturn_actors.context.policies import duragent
from everturn_actors.context.prompt import system_prompt
from everturn_actors.model import AnyMessage, Conversation, ModelRequest, ToolDefinition
from everturn_actors.spec import AgentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A request, and how it came to be as it is."""

    request: ModelRequest
    budget: Budget
    shown_messages: int
    "Messages of the conversation in the request, shortened ones included, the notice not."
    left_messages: int
    "Messages since the session began that are not in it; the number the notice tells."


def render(
    conversation: Conversation, spec: AgentSpec, tools: tuple[ToolDefinition, ...] = ()
) -> Rendered:
    """Return the request for the next step of the conversation's current turn.

    Every policy is rendered by the layers of `duragent` for now. No call stands without its
    results, the current turn is always there, and estimate and reserve together fit the window.

    Raises:
        ContextDoesNotFitError: What cannot be left out is larger than the window; the text names
            the parts and says what to change.
    """
    current = conversation.current
    system = system_prompt(
        spec.prompt,
        instructions=conversation.instructions,
        at=None if current is None else current.started_at,
    )
    budget = make_budget(spec, system, tools)
    chosen = duragent.choose(conversation, budget)
    messages: tuple[AnyMessage, ...] = chosen.messages
    if chosen.left_messages > 0:
        messages = (duragent.notice(chosen.left_messages), *messages)
    request = ModelRequest(
        model=spec.model.name,
        system=system,
        messages=messages,
        tools=tools,
        max_output_tokens=spec.model.max_output_tokens,
        temperature=spec.model.temperature,
    )
    return Rendered(
        request=request,
        budget=budget,
        shown_messages=len(chosen.messages),
        left_messages=chosen.left_messages,
    )
