"""`sessions.keep`: for how long what belongs to sessions is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from everturn_gateway.yaml_files import SettingsModel

_Days: TypeAlias = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]
_Megabytes: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """For how long what belongs to sessions is kept; 0 = for ever, or any size."""

    days: float = 0
    "A session in which nothing happened for so long is deleted."
    megabytes: float = 0
    "All sessions together; beyond it those go in which nothing happened for longest."
    media_days: float = 0
    "Files of messages go where nothing happened in their session for so long."
    results_days: float = 0
    "So do large results."
    archives_days: float = 0
    "So do the events behind the snapshot."

    @property
    def is_limited(self) -> bool:
        """Whether anything goes at all."""
        return any(getattr(self, each.name) for each in fields(Keep))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepConfig(Keep):
    """What holds for all agents, and for each that has numbers of its own."""

    usage_days: float = 0
    "Months of usage go when all of their days are older."
    cancelled_jobs_days: float = 0
    "Files of jobs that were called off go after so long."
    agents: Mapping[str, Keep] = field(default_factory=dict[str, Keep])
    "By agent; what it says nothing of is as for all, but for its share of the size."

    def of(self, agent: str) -> Keep:
        """Return what holds for the sessions of an agent."""
        return self.agents.get(agent, self)

    @property
    def is_set(self) -> bool:
        """Whether anything goes at all."""
        others = bool(self.usage_days) or bool(self.cancelled_jobs_days)
        agents = any(each.is_limited for each in self.agents.values())
        return self.is_limited or others or agents


KEEP_ALL: Final = KeepConfig()


class KeepSettings(SettingsModel):
    """`sessions.keep.agents.<name>`."""

    days: _Days | None = None
    megabytes: _Megabytes | None = None
    media_days: _Days | None = None
    results_days: _Days | None = None
    archives_days: _Days | None = None


class SessionsKeepSettings(KeepSettings):
    """`sessions.keep`."""

    usage_days: _Days | None = None
    cancelled_jobs_days: _Days | None = None
    agents: dict[str, KeepSettings] = Field(default_factory=dict)

    def value(self) -> KeepConfig:
        """Return what it says."""
        ages = ("days", "media_days", "results_days", "archives_days")
        own = {name: getattr(self, name) or 0 for name in (*ages, "megabytes")}
        agents = {
            agent: Keep(
                megabytes=each.megabytes or 0,
                **{name: getattr(each, name) or own[name] for name in ages},
            )
            for agent, each in self.agents.items()
        }
        return KeepConfig(
            **own,
            usage_days=self.usage_days or 0,
            cancelled_jobs_days=self.cancelled_jobs_days or 0,
            agents=agents,
        )
