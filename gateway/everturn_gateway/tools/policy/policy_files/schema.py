"""The fields of `policy.yaml`, as models: what may stand in the file, not what is done with it.

Source: Duragent's format v1alpha1 (`apiVersion`, `kind`, `mode`, `deny`, `allow`, `notify`), and
Everturn's additions to it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from everturn_gateway.tools.policy.policy import AfterUntrusted, Mode
from everturn_gateway.tools.policy.rules.patterns import KINDS, Pattern, read_pattern
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Address


def _some(value: str) -> str:
    if not value.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return value


PatternText = Annotated[
    str,
    AfterValidator(lambda value: read_pattern(value).text),
    Field(
        json_schema_extra={"examples": ["bash:git *", "mcp:github:*", "builtin:web_fetch"]},
        description=f"type:glob; types: {', '.join(KINDS)}; no colon = every type.",
    ),
]
"A pattern, checked; `patterns_of` reads it."
Text = Annotated[str, AfterValidator(_some)]


class LogSettings(SettingsModel):
    """A line in the gateway's log."""

    type: Literal["log"]


class WebhookSettings(SettingsModel):
    """A POST of JSON."""

    type: Literal["webhook"]
    url: Address


DeliverySettings: TypeAlias = Annotated[LogSettings | WebhookSettings, Field(discriminator="type")]


class NotifySettings(SettingsModel):
    """Which calls somebody is told of."""

    enabled: bool | None = None
    "By default where there are patterns or deliveries."
    patterns: tuple[PatternText, ...] = ()
    "Which calls; by default every one."
    deliveries: tuple[DeliverySettings, ...] = ()
    "How; by default a line in the log."

    @property
    def is_on(self) -> bool:
        """Whether this tier wants somebody told."""
        return self.enabled if self.enabled is not None else bool(self.patterns or self.deliveries)


class PolicyDocument(SettingsModel):
    """One tier of a tool policy."""

    api_version: Literal["duragent/v1alpha1"] = Field("duragent/v1alpha1", alias="apiVersion")
    kind: Literal["Policy"] = "Policy"
    mode: Mode = "ask"
    "dangerous: what is not denied runs. ask: the rest needs a person. restrict: it is refused."
    deny: tuple[PatternText, ...] = ()
    "Never runs, whatever the mode."
    allow: tuple[PatternText, ...] = ()
    "Runs without a question."
    notify: NotifySettings | None = None
    approvers: tuple[Text, ...] = ()
    "Sender ids, a trailing * matches the rest; by default all who may talk in the conversation."
    approval_timeout_seconds: Annotated[int, Field(gt=0, le=30 * 24 * 3600)] = 3600
    "How long there is to answer; then the call is refused."
    after_untrusted: AfterUntrusted = "ask"
    "Whether effects ask again while text from outside, such as a web page, is shown to the model."
    reads: tuple[PatternText, ...] = ()
    "Calls that only read: what is allowed of them goes on while text from outside is shown."


def patterns_of(texts: tuple[str, ...]) -> tuple[Pattern, ...]:
    """Return checked texts as patterns, each once."""
    return tuple(read_pattern(text) for text in dict.fromkeys(texts))
