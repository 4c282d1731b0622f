"""What a request may cost: the one value that trigger, renderer and reports read. Pure.

Source: the seed design "Context Window Management", layer 2.
"""

from __future__ import annotations

from msgspec import Struct

from everturn_actors.errors import ContextDoesNotFitError

DEFAULT_RESERVE_TOKENS = 4096  # for the reply, where the spec does not say
_MARGIN_DIVISOR = 10  # a tenth of the window pays for what the estimate misses


class Budget(Struct, frozen=True, kw_only=True):
    """How a model's window is divided. All values are estimated tokens."""

    window_tokens: int
    "What one call may hold: request and reply."
    system_tokens: int
    tools_tokens: int
    reserve_tokens: int
    "Kept free for the reply."
    margin_tokens: int
    "Kept free because the estimate is one; it also pays for the notice."
    history_cap_tokens: int
    "The most that history may take; 0 = no cap."
    correction_tokens: int = 0
    "What the usage that was last reported says beyond the estimate; may be below zero."

    @property
    def free_tokens(self) -> int:
        """What the fixed parts leave; below zero where they alone are too large."""
        fixed = self.system_tokens + self.tools_tokens + self.reserve_tokens
        return self.window_tokens - fixed - self.margin_tokens - self.correction_tokens

    @property
    def available_tokens(self) -> int:
        """What all messages together may take, never below 0."""
        return max(self.free_tokens, 0)

    @property
    def history_tokens(self) -> int:
        """What the history and the newest user messages together may take."""
        available, cap = self.available_tokens, self.history_cap_tokens
        return min(available, cap) if cap > 0 else available

    def explain(self) -> str:
        """Return the arithmetic in one line, for people."""
        cap = f"{self.history_cap_tokens:,}" if self.history_cap_tokens > 0 else "none"
        correction = f" - correction {self.correction_tokens:,}" if self.correction_tokens else ""
        return (
            f"window {self.window_tokens:,} - system {self.system_tokens:,}"
            f" - tools {self.tools_tokens:,} - reply {self.reserve_tokens:,}"
            f" - margin {self.margin_tokens:,}{correction}"
            f" = {self.free_tokens:,} tokens for messages"
            f" (history cap {cap})"
        )


def check_feasible(budget: Budget) -> None:
    """Refuse a budget that leaves nothing for messages.

    Raises:
        ContextDoesNotFitError: System prompt, tools, reply and margin fill the window; the text
            shows the arithmetic and says what to change.
    """
    if budget.free_tokens > 0:
        return
    msg = (
        f"nothing is left for messages: {budget.explain()}; shorten the prompt, give it fewer"
        " tools, lower max_output_tokens or choose a model with a larger window"
    )
    raise ContextDoesNotFitError(msg)
