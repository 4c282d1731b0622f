"""Which model answers, as people ask and choose it.

/model                    which one answers, and which there are
/model gpt-5-mini         another one for this conversation
/model openai/gpt-5-mini  the same, of another provider
/model gpt-5-mini agent   for the agent: in all conversations that chose none
/model default            the agent's own again
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from everturn_actors.model import ChosenModel
from everturn_channels.languages import t
from everturn_channels.names import visible

BUTTON_PREFIX: Final = "model:"
"Of what the button of a model carries; the digits of its digest follow, or `default`."
DEFAULT: Final = "default"
LISTED_MAX: Final = 20
_DIGITS: Final = 16
_FOR_AGENT: Final = "agent"


class ModelChoice(Struct, frozen=True, kw_only=True):
    """A model that may be chosen."""

    model: ChosenModel
    window_tokens: int | None = None
    "None = nobody knows before it was asked."
    price: tuple[float, float] | None = None
    "US dollars for a million tokens in and out; None = nobody said. Zeros = it is free."

    @property
    def label(self) -> str:
        """How it is called: `provider/name`."""
        return self.model.label

    @property
    def button(self) -> str:
        """What its button carries."""
        return f"{BUTTON_PREFIX}{sha256(self.label.encode()).hexdigest()[:_DIGITS]}"


class AgentModels(Struct, frozen=True, kw_only=True):
    """Which model an agent has, and which others there are."""

    own: ModelChoice
    fallbacks: tuple[str, ...] = ()
    "Labels of those that answer in an outage."
    others: tuple[ModelChoice, ...] = ()
    "Those that agents name, and those that the provider of its own one lists."

    def find(self, chosen: ChosenModel | None) -> ModelChoice:
        """Return the choice that a chosen model is; the agent's own for None."""
        if chosen is None:
            return self.own
        found = (each for each in (self.own, *self.others) if each.model == chosen)
        return next(found, ModelChoice(model=chosen))


class SessionModels(Struct, frozen=True, kw_only=True):
    """Which model answers in one session, as whoever is outside of the gateway is told."""

    models: AgentModels
    chosen: ModelChoice | None = None
    "None = the agent's own answers."

    @property
    def now(self) -> ModelChoice:
        """The one that answers."""
        return self.chosen or self.models.own


class ModelIntent(Struct, frozen=True, kw_only=True):
    """What stands after `/model`."""

    name: str
    "Of the model, as it was typed; empty = the agent's own again."
    scope: Literal["conversation", "agent"] = "conversation"


def read_model_intent(argument: str) -> ModelIntent | None:
    """Return what is to be chosen; None where nothing is.

    >>> read_model_intent("gpt-5 agent")
    ModelIntent(name='gpt-5', scope='agent')
    >>> read_model_intent("Default")
    ModelIntent(name='', scope='conversation')
    """
    words = argument.split()
    if not words:
        return None
    is_for_agent = len(words) > 1 and words[-1].lower() == _FOR_AGENT
    name = " ".join(words[:-1] if is_for_agent else words)
    return ModelIntent(
        name="" if name.lower() == DEFAULT else name,
        scope="agent" if is_for_agent else "conversation",
    )


def model_text(models: AgentModels, chosen: ChosenModel | None, *, may_choose: bool) -> str:
    """Answer /model: which one answers here, and, for whoever may choose, which there are."""
    lines = [f"**{t('Model')}**: {described(models.find(chosen))}"]
    if chosen is not None:
        lines.append(t("Chosen for this conversation, until it is reset."))
        lines.append(t("The agent's own: {model}", model=described(models.own)))
    if models.fallbacks:
        others = ", ".join(f"`{visible(each)}`" for each in models.fallbacks)
        lines.append(t("In an outage: {models}", models=others))
    told = [f"- {line}" if index else line for index, line in enumerate(lines)]
    if not may_choose:
        return "\n".join(told)
    shown = models.others[:LISTED_MAX]
    if shown:
        told += ["", t("There are also:"), *(f"- {described(each)}" for each in shown)]
    if len(models.others) > len(shown):
        left = len(models.others) - len(shown)
        told.append(t("- and {count} more", count=left))
    how = t(
        "/model NAME takes another one for this conversation, /model NAME agent for the agent,"
        " /model default the agent's own."
    )
    return "\n".join([*told, "", how])


def model_chosen(
    choice: ModelChoice, *, is_own: bool, used_percent: int | None, mark: str = "`"
) -> str:
    """Say that a model answers in this conversation from now on.

    Args:
        choice: The model.
        is_own: Whether it is the agent's own again.
        used_percent: How much of its window this conversation takes; None = it is not known.
        mark: What stands before and behind its name.
    """
    model = described(choice, mark=mark)
    lines = [
        t("The agent's own model answers here again: {model}", model=model)
        if is_own
        else t("From the next message on this one answers here: {model}", model=model)
    ]
    if used_percent is not None:
        lines.append(t("This conversation takes {percent} % of its window.", percent=used_percent))
        if used_percent >= _FULL_PERCENT:
            lines.append(t("Older messages will be summarised or left out so that it fits."))
    return "\n".join(lines)


def model_set_for_agent(choice: ModelChoice, agent: str) -> str:
    """Say that an agent has another model."""
    return t(
        "{agent} has this model now, in all conversations that chose none: {model}",
        agent=f"`{visible(agent)}`",
        model=described(choice),
    )


def not_yours_to_choose() -> str:
    """Tell somebody who may not that only owners choose a model."""
    return t("Only an owner of this agent chooses its model.")


_FULL_PERCENT: Final = 80


def described(choice: ModelChoice, *, mark: str = "`") -> str:
    """Return a model in a line: its name, between two marks; its window, what it costs."""
    parts = [f"{mark}{visible(choice.label)}{mark}"]
    if choice.window_tokens:
        parts.append(t("window of {count} tokens", count=choice.window_tokens))
    if choice.price is not None and any(choice.price):
        cost_in, cost_out = choice.price
        text = t(
            "${input} in and ${output} out a million tokens",
            input=f"{cost_in:g}",
            output=f"{cost_out:g}",
        )
        parts.append(text)
    elif choice.price is not None:
        parts.append(t("free"))
    else:
        parts.append(t("its price is not known"))
    return ", ".join(parts)
