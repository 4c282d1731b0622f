"""`spec.model`: which model answers, and its limits."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Address, Count, FilePath, Text

Effort: TypeAlias = Literal["low", "medium", "high"]


class FallbackSettings(SettingsModel):
    """A model that is tried when the one before it is out of reach."""

    provider: Text
    name: Text
    base_url: Address | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_input_tokens: Count | None = None
    max_output_tokens: Count | None = None
    context_window: Count | None = None


class OneModelSettings(SettingsModel):
    """One model, and its limits in tokens."""

    provider: Text
    "Whose model it is; the schema names those that are installed."
    name: Text
    base_url: Address | None = None
    "Any endpoint that speaks the provider's protocol."
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    max_input_tokens: Count | None = None
    "The window in tokens, or a cap on context_window where that is set; by default by the name."
    max_output_tokens: Count | None = None
    "Reserved for the reply; 4096 where the budget needs a number."
    max_tokens: Count | None = None
    "Another name of max_output_tokens."
    context_window: Count | None = None
    "The model's own window, where max_input_tokens is only a cap on it."
    reasoning_effort: Effort | None = None
    "How much it thinks before it answers; by default as its provider does."

    @model_validator(mode="after")
    def _one_limit(self) -> OneModelSettings:
        if self.max_tokens is not None and self.max_output_tokens is not None:
            msg = "max_tokens is another name of max_output_tokens; keep one of the two"
            raise ValueError(msg)
        return self


class ModelSettings(OneModelSettings):
    """Which model answers, and its limits in tokens."""

    makes_images: bool = False
    "Whether it is asked for images with its text; of providers whose models make some."
    tokenizer: FilePath | None = None
    "The model's `tokenizer.json`, relative to the agent's folder: counts prompts near the edge."
    fallbacks: tuple[FallbackSettings, ...] = ()
    "Tried next, in this order, on an outage."
    retry_for_seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 900
    "An outage of all of them is waited out for so long; 0 = a turn fails after four tries."


class SummarizerSettings(OneModelSettings):
    """Which model writes summaries; the fields are those of spec.model."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    "At most 0.3 is sent."
