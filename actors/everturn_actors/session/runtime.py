"""What all actors of a service share, and what they ask of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from everturn_actors.context.estimation.windows import input_window
from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.errors import UnknownAgentError
from everturn_actors.ports import (
    Agent,
    Agents,
    ModelStatisticsStore,
    NullObserver,
    Observer,
    SessionStore,
)
from everturn_actors.turn.model_call import Pace

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What all actors of a service share."""

    store: SessionStore
    agents: Agents
    model_statistics: ModelStatisticsStore
    pace: Pace
    passivate_after_s: float
    leave_grace_s: float
    "How long a client may be gone before its turn is paused."
    delivery_ports: Mapping[str, DeliveryPort] = field(default_factory=dict[str, DeliveryPort])
    "By the name of their channel: whoever tells its people what is said."
    observer: Observer = field(default_factory=NullObserver)

    def now(self) -> datetime:
        """Return the present instant, UTC."""
        return self.pace.clock.now()

    def find_agent(self, name: str) -> Agent | UnknownAgentError:
        """Return an agent, or why there is none."""
        try:
            return self.agents.get(name)
        except UnknownAgentError as error:
            return error
        except Exception as error:
            # A boundary: whatever is wrong with the agents ends no session.
            logger.exception("an agent cannot be had", extra={"agent": name})
            return UnknownAgentError(name, why=f"it cannot be had: {type(error).__name__}")

    def agent(self, name: str) -> Agent | None:
        """Return an agent; None where there is none."""
        found = self.find_agent(name)
        return found if isinstance(found, Agent) else None

    def window_tokens(self, agent: Agent | None) -> int | None:
        """Return the window of an agent's model; None where nobody can say."""
        if agent is None:
            return None
        model = agent.spec.model
        try:
            return input_window(model, self.model_statistics.of(model))
        except Exception:  # a boundary: the turn begins all the same, and ends in words if it must
            logger.exception("a model's window is not known", extra={"agent": agent.spec.name})
            return None
