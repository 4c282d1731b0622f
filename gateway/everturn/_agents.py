"""Agents as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from everturn._tools import Tool
from everturn_actors.context.policy import AnyPolicy
from everturn_actors.ports import ModelProvider
from everturn_actors.ports import Tool as ToolPort
from everturn_gateway.errors import ConfigError

if TYPE_CHECKING:  # the gateway is loaded when one is opened
    from everturn_gateway.specs.declared import DeclaredAgent

OWN_MODEL = "own-model-of-"  # and the agent's name: the provider of an agent that brings its own


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One agent of a gateway: who it is, which model answers, and what it can do.

    >>> Agent(name="clerk", instructions="Be brief.", model="openai/gpt-5-mini").model
    'openai/gpt-5-mini'

    It is checked when a gateway is opened with it, by the same rules as an `agent.yaml`.
    """

    name: str
    "Letters, digits, hyphens; unique in its gateway."
    instructions: str = ""
    "The system prompt. `{{date}}` and `{{time}}` are filled in for each turn."
    model: str | ModelProvider = "builtin/echo"
    """`PROVIDER/NAME`, like `anthropic/claude-sonnet-5`, or an object of your own, see `Provider`.

    `builtin` needs no key and is no model: it repeats what it is told. Keys are read from the
    environment, see `docs/models.md`.
    """
    description: str = ""
    "Who it is, in a line for people."
    tools: Sequence[ToolPort] = ()
    """What it can do: functions with `@everturn.tool`, objects of your own `Tool` classes.

    A call of one whose `needs_approval` is False runs without a question.
    """
    policy: AnyPolicy | None = None
    "How its conversation is made to fit, see `Policy`; None = as `settings` say, or `everturn`."
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Whatever else may stand under `spec` in an `agent.yaml`, by the same names.

    For example `{"session": {"context": {"policy": "jutul"}}}`; see `docs/agents.md`.
    """

    @property
    def own_provider(self) -> Mapping[str, ModelProvider]:
        """The provider that it brings, by the name under which its gateway knows it."""
        return {} if isinstance(self.model, str) else {f"{OWN_MODEL}{self.name}": self.model}

    def declared(self, folder: Path) -> DeclaredAgent:
        """Return it as the gateway reads it.

        Args:
            folder: Of its own, where the gateway keeps what was allowed for good.

        Raises:
            ConfigError: `model` is no `PROVIDER/NAME`.
        """
        from everturn_gateway.specs.declared import (
            DeclaredAgent,
        )

        free = [
            each.definition.name
            for each in self.tools
            if isinstance(each, Tool) and not each.needs_approval
        ]
        return DeclaredAgent(
            folder=folder,
            document=self._document(),
            tools=tuple(self.tools),
            allowed=tuple(free),
            policy=self.policy,
        )

    def _document(self) -> dict[str, object]:
        settings = {**self.settings}
        own_model = cast("Mapping[str, object]", settings.pop("model", {}))
        spec: dict[str, object] = {"model": {**self._model(), **own_model}}
        if self.instructions:
            # With a line end it is never taken for the name of a file.
            spec["instructions"] = f"{self.instructions}\n"
        return {
            "apiVersion": "duragent/v1alpha1",
            "kind": "Agent",
            "metadata": {"name": self.name, "description": self.description},
            "spec": {**spec, **settings},
        }

    def _model(self) -> dict[str, str]:
        if not isinstance(self.model, str):
            return {"provider": f"{OWN_MODEL}{self.name}", "name": type(self.model).__name__}
        provider, _, name = self.model.partition("/")
        if not provider or not name:
            msg = (
                f"agent {self.name}: model must be PROVIDER/NAME, like openai/gpt-5-mini,"
                f" not {self.model!r}"
            )
            raise ConfigError(msg)
        return {"provider": provider, "name": name}
