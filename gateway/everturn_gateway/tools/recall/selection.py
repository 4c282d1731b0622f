"""Which agents are offered `recall_context`."""

from __future__ import annotations

from typing import Final

from everturn_actors.context.catalog import limits_of, policy_of
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.ports import Tool
from everturn_actors.spec import AgentSpec
from everturn_gateway.plugins import installed
from everturn_gateway.tools.recall import RecallContext
from everturn_gateway.tools.recall.messages import NAME
from everturn_gateway.tools.recall.pages import PAGE_CHARACTERS, PageSize

_WINDOW_SHARE: Final = 8  # a page takes at most this part of the window
_PAGE_MIN: Final = 200  # characters, or tokens
_CHARACTERS_PER_TOKEN: Final = 4


def is_recall_offered(spec: AgentSpec) -> bool:
    """Return whether an agent is offered `recall_context`.

    Its model has to be one that can call tools; `spec.session.context.recall` says no, or, for what
    answers without being a model, yes.
    """
    provider, setting = installed().providers.get(spec.model.provider), spec.session.context.recall
    if provider is None:
        return setting is not False
    is_wanted = provider.is_model if setting is None else setting
    return provider.calls_tools and is_wanted


def quotes_older(spec: AgentSpec) -> bool:
    """Return whether older messages that fit a question are quoted with it, without being asked."""
    setting = spec.session.context.auto_recall
    if setting is None:
        return policy_of(spec.session.context).opens_summaries and is_recall_offered(spec)
    return setting


def recall_page(spec: AgentSpec) -> PageSize:
    """Return how much `recall_context` may answer at once, so that no policy cuts it again.

    A quarter below the agent's cap for a result stays free for what stands around a page.
    """
    policy, most = policy_of(spec.session.context), input_window(spec.model) // _WINDOW_SHARE
    limits = limits_of(spec)
    tokens = policy.recalled_tokens(policy.numbers, limits)
    characters = policy.whole_characters(policy.numbers, limits)
    least = [each for each in (most, tokens, characters) if each is not None]
    page = max(min(PAGE_CHARACTERS, min(least) * 3 // 4), _PAGE_MIN)
    # Where results are counted as pages are, a page has as many characters as its tokens allow.
    times = 1 if tokens is None else _CHARACTERS_PER_TOKEN
    return PageSize(tokens=page, characters=min(page * times, PAGE_CHARACTERS))


def tools_for(spec: AgentSpec) -> dict[str, Tool]:
    """Return the tools of an agent that has no others, by name."""
    if not is_recall_offered(spec):
        return {}
    return {NAME: RecallContext(page=recall_page(spec))}
