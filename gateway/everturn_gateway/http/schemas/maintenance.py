"""What is told over HTTP of what is cleaned and erased."""

from __future__ import annotations

from pydantic import Field

from everturn_gateway.http.schemas.base import Body
from everturn_gateway.retention.planning import Step, What


class CleaningStep(Body):
    """One thing that goes."""

    what: What
    name: str = Field(description="A session's id, the key of a month, or a job's file.")
    agent: str
    reason: str
    size_bytes: int = Field(description="0 where the store does not tell.")

    @staticmethod
    def of(step: Step) -> CleaningStep:
        """Return the body of a step."""
        return CleaningStep(
            what=step.what,
            name=step.name,
            agent=step.agent,
            reason=step.reason,
            size_bytes=step.size_bytes,
        )


class CleaningPlan(Body):
    """What would go now."""

    is_set: bool = Field(description="Whether `sessions.keep` has a limit at all.")
    steps: tuple[CleaningStep, ...]
    size_bytes: int


class PersonToErase(Body):
    """Whose words are erased."""

    person: str = Field(
        min_length=3,
        max_length=300,
        pattern=r"^[^:]+:\s*\S",
        description="CHANNEL:ID, as logs have the id, or principal:NAME.",
        examples=["telegram:123456"],
    )
