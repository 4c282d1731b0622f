"""Which models an agent could have: those that agents name, and those that its provider lists."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from msgspec import Struct, field

from everturn_actors.context.estimation.windows import input_window
from everturn_actors.errors import InvalidInputError, ToolFailedError
from everturn_actors.model import ChosenModel
from everturn_actors.ports import Clock
from everturn_actors.spec import ModelSpec
from everturn_channels.models import AgentModels, ModelChoice
from everturn_gateway.errors import ConfigError, GatewayError, printable
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import installed
from everturn_gateway.specs import AgentLibrary
from everturn_gateway.specs.values import model_spec
from everturn_gateway.usage import Meter
from everturn_gateway.yaml_files.editing import EditError, with_fields

if TYPE_CHECKING:
    from everturn_gateway.providers import servers
else:
    servers = late("everturn_gateway.providers.servers")

logger = logging.getLogger(__name__)

LIST_S: Final = 4.0  # for a provider's list; somebody waits for the answer
_KEPT_S: Final = 300.0
_KEPT_FAILED_S: Final = 30.0  # so that not everybody who asks waits for a server that is away
_FILE: Final = "agent.yaml"
_NO_LIST: Final = frozenset(("builtin", "scripted", "local"))  # those that nobody has to ask


class ModelChoices(Struct, kw_only=True):
    """Knows which models may be chosen, and has agents take others."""

    library: AgentLibrary
    meter: Meter
    environ: Mapping[str, str]
    "Holds the keys."
    clock: Clock
    _lists: dict[tuple[str, str], tuple[float, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, str], tuple[float, tuple[str, ...]]]
    )
    "By provider and address: until when a list holds, and the names."

    async def of(self, agent: str) -> AgentModels:
        """Return an agent's model, and the others that there are.

        Where its provider does not say soon which it has, those that agents name are all.

        Raises:
            UnknownAgentError: There is no such agent.
        """
        own = self.library.file(agent).spec.model
        known = self.library.models()
        listed = [ChosenModel(provider=own.provider, name=n) for n in await self._listed(own)]
        named = [ChosenModel(provider=each.provider, name=each.name) for each in known]
        mine = ChosenModel(provider=own.provider, name=own.name)
        others = dict.fromkeys(each for each in (*named, *listed) if each != mine)
        return AgentModels(
            own=self._choice(mine, own),
            fallbacks=tuple(f"{each.provider}/{each.name}" for each in own.fallbacks),
            others=tuple(self._choice(each, model_spec(each, own, known)) for each in others),
        )

    async def named(self, agent: str, typed: str) -> ChosenModel:
        """Return the model that somebody names: `provider/name`, or a name of its own provider.

        Raises:
            UnknownAgentError: There is no such agent.
            InvalidInputError: There is no such model; the text names those that are near.
        """
        models = await self.of(agent)
        choices = (models.own, *models.others)
        wanted = typed.strip().casefold()
        for each in choices:
            if wanted in {each.label.casefold(), each.model.name.casefold()}:
                return each.model
        own = models.own.model
        provider, slash, name = typed.strip().partition("/")
        is_other = bool(slash and name) and provider != own.provider
        if is_other and provider in installed().providers.names:
            return ChosenModel(provider=provider, name=name)
        if not any(own.provider == each.model.provider for each in models.others):
            if own.provider in _NO_LIST or not wanted:
                msg = f"the provider {own.provider} has no other model"
                raise InvalidInputError(msg)
            # Nobody can say which there are; the first call does.
            is_own = bool(slash and name) and provider == own.provider
            return ChosenModel(provider=own.provider, name=name if is_own else typed.strip())
        labels = [each.label for each in choices]
        near = difflib.get_close_matches(typed, labels, n=3) or labels[:3]
        msg = f"there is no model {printable(typed)!r}; there are for example {', '.join(near)}"
        raise InvalidInputError(msg)

    async def set_for_agent(self, agent: str, model: ChosenModel, by: str) -> None:
        """Write another model into an agent's file and read it again.

        Raises:
            UnknownAgentError: There is no such agent, or it stands in no file.
            InvalidInputError: The file cannot be changed so, or the agent would not work.
        """
        folder = self.library.folder(agent)
        own = self.library.file(agent).spec.model
        spec = model_spec(model, own, self.library.models())
        fields = {"provider": spec.provider, "name": spec.name, "base_url": spec.base_url}
        if (own.provider, own.name) != (spec.provider, spec.name):
            fields["context_window"] = ""  # it was that of the other one

        def write() -> None:
            file = folder.read(_FILE)
            if file is None:
                msg = f"the agent {agent} has no {_FILE}"
                raise InvalidInputError(msg)
            text = with_fields(file.text, ("spec", "model"), fields)
            before = {str(fault.message) for fault in folder.faults({_FILE: file.text})}
            for fault in folder.faults({_FILE: text}):
                if str(fault.message) not in before:
                    raise InvalidInputError(str(fault.message))
            folder.write(_FILE, text, version=file.version)

        try:
            await to_thread.run_sync(write)
        except (EditError, ToolFailedError, ConfigError, OSError) as error:
            raise InvalidInputError(printable(str(error))) from error
        await self.library.reload()
        logger.info(
            "an agent has another model", extra={"agent": agent, "model": model.label, "by": by}
        )

    def _choice(self, model: ChosenModel, spec: ModelSpec) -> ModelChoice:
        price = self.meter.prices.price(spec)
        return ModelChoice(
            model=model,
            window_tokens=input_window(spec) if _is_known(spec) else None,
            price=None if price is None else (price.rates.input, price.rates.output),
        )

    async def _listed(self, own: ModelSpec) -> tuple[str, ...]:
        """Return what a model's provider lists; nothing where it does not say."""
        if own.provider in _NO_LIST:
            return ()
        place = own.provider, own.base_url
        now = self.clock.now().timestamp()
        until, names = self._lists.get(place, (0.0, ()))
        if now < until:
            return names
        try:
            with anyio.fail_after(LIST_S):
                names = tuple(await servers.models_of(own, self.environ))
        except (GatewayError, TimeoutError) as error:
            extra = {"provider": own.provider, "error": str(error)}
            logger.info("a provider does not say which models it has", extra=extra)
            self._lists[place] = now + _KEPT_FAILED_S, ()
            return ()
        self._lists[place] = now + _KEPT_S, names
        return names


def _is_known(spec: ModelSpec) -> bool:
    return bool(spec.context_window or spec.max_input_tokens or spec.usual_window)
