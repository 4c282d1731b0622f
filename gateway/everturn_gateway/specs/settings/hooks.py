"""`spec.hooks`: guards that refuse, notes that steer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Text


class BeforeToolSettings(SettingsModel):
    """A guard that can refuse a call."""

    match: Text
    "tool, or tool:action; * matches the rest."
    type: Literal["depends_on", "skip_duplicate"]
    prior: str | None = None
    "depends_on: the tool:action that must have run before."
    match_arg: str | None = None
    "depends_on: the argument that must be the same in both."
    match_args: tuple[str, ...] = ()
    "skip_duplicate: the arguments that make two calls the same."


class AfterToolSettings(SettingsModel):
    """A note to the model after a call."""

    match: Text
    "tool, or tool:action; * matches the rest."
    message: Text
    unless: dict[str, object] = Field(default_factory=dict)
    "No note where one of these arguments has this value."


class HooksSettings(SettingsModel):
    """Guards that refuse, notes that steer."""

    before_tool: tuple[BeforeToolSettings, ...] = ()
    after_tool: tuple[AfterToolSettings, ...] = ()
