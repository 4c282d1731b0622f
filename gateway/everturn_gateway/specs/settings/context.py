"""`spec.session.context`: which policy renders a request, with the numbers that the policy has."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from everturn_gateway.plugins import installed
from everturn_gateway.specs.settings.model import SummarizerSettings
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Seconds

DEFAULT_POLICY: Final = "everturn"


def _policy(value: str) -> str:
    policies = installed().policies
    if value not in policies.names and policies.fault(value) is None:
        choices = f"{', '.join(policies.names[:-1])} or {policies.names[-1]}"
        msg = f"must be {choices}, not {value!r}"
        raise ValueError(msg)
    return value


def _model_or_none(value: object, check: ValidatorFunctionWrapHandler) -> SummarizerSettings | None:
    """Read a section, or the word `none`, which gives None."""
    if value == "none":
        return None
    if isinstance(value, str):
        kind, text = "summarizer", "must be none, or a section with provider and name"
        raise PydanticCustomError(kind, text)
    found: SummarizerSettings = check(value)
    return found


Summarizer = Annotated[
    SummarizerSettings | None,
    WrapValidator(_model_or_none, json_schema_input_type=Literal["none"] | SummarizerSettings),
]


class ContextSettings(SettingsModel):
    """How the conversation is made to fit the model's window.

    The numbers of the policy stand beside its name; `specs.context` reads them.
    """

    model_config = ConfigDict(extra="allow")

    policy: Annotated[str, AfterValidator(_policy)] = DEFAULT_POLICY
    "What a request leaves out or shortens, and in which order."
    recall: bool | None = None
    "Whether the model gets the tool recall_context; by default, where it can call tools."
    auto_recall: bool | None = None
    "Whether hidden messages that fit a question are quoted with it; by default with recall."
    summarizer: Summarizer = None
    "Who writes summaries: a model, or none. By default the agent's own; builtin, scripted: none."
    summary_timeout_seconds: Seconds = 120
    "Deadline of one summary, all tries together."
