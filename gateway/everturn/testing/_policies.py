"""The suite that holds a context policy to its contract."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from everturn_actors.context.policy import AnyPolicy, Applied, Limits, apply_policy
from everturn_actors.model import Reply, ToolResult, UserMessage
from everturn_gateway.commands.context.transcript import read_transcript

WINDOW_TOKENS: Final = 20_000


def long_conversation(turns: int = 40) -> list[dict[str, Any]]:
    """Return a conversation of turns with a call of a tool each, far larger than the window."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "look"}}
        call["function"] = {"name": "look", "arguments": "{}"}
        messages += [
            {"role": "user", "content": f"question {turn} " + "abcd " * 200},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": f"found {turn} " * 400},
            {"role": "assistant", "content": f"answer {turn} " + "efgh " * 200},
        ]
    return [*messages, {"role": "user", "content": "the newest question"}]


class PolicyContract:
    """Holds a context policy to `everturn_actors.context.policy.Policy`.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Set `policy`.

    >>> class TestMyPolicy(PolicyContract):  # doctest: +SKIP
    ...     policy = MY_POLICY
    """

    policy: AnyPolicy

    def test_what_it_promises_to_fit_fits(self) -> None:
        """A request that is too long is refused by the provider, and the turn waits."""
        applied = self._applied()
        if not self.policy.promises_fit:
            pytest.skip("it does not promise that")

        assert applied.total_tokens <= WINDOW_TOKENS

    def test_the_newest_message_is_shown(self) -> None:
        """Whatever leaves, the question that is to be answered stays."""
        shown = [m for m in self._applied().projection.messages if isinstance(m, UserMessage)]

        assert shown[-1].text == "the newest question"

    def test_no_result_stands_without_its_call_nor_a_call_without_its_result(self) -> None:
        """Every provider refuses such a request."""
        open_calls: set[str] = set()
        for message in self._applied().projection.messages:
            if isinstance(message, ToolResult):
                assert message.call_id in open_calls
                open_calls.remove(message.call_id)
            else:
                assert not open_calls
                if isinstance(message, Reply):
                    open_calls = {call.call_id for call in message.calls}

        assert not open_calls

    def test_it_makes_the_same_of_the_same(self) -> None:
        """A request of the past has to be explained years later: no clock, no chance, no IO."""
        first, again = self._applied(), self._applied()

        assert first.projection.messages == again.projection.messages
        assert first.preamble == again.preamble
        assert first.reductions == again.reductions

    def test_a_short_conversation_stays_as_it_is(self) -> None:
        """Where there is room nothing is lost."""
        short = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        given = read_transcript([*short, {"role": "user", "content": "well?"}]).view(None)
        applied = apply_policy(self.policy, given, _limits(), system="Be brief.")

        assert applied.projection.messages == given.messages
        assert applied.preamble.system == "Be brief."

    def test_a_summary_is_shown_once(self) -> None:
        """Turns leave for one on demand, under every policy; without one nothing is shown."""
        preamble = self.policy.preamble("S", "They like cats.", 0)
        none = self.policy.preamble("S", "", 0)

        assert (preamble.system + preamble.preface).count("They like cats.") == 1
        assert none == replace(preamble, system="S", preface="")

    def test_its_numbers_can_be_set_by_their_names(self) -> None:
        """Whoever runs an agent tunes them; a misspelt one is told."""
        for name in self.policy.number_names():
            same = getattr(self.policy.numbers, name)

            assert self.policy.with_numbers({name: same}) == self.policy
        with pytest.raises(KeyError):
            self.policy.with_numbers({"no_such_number": 1})

    def _applied(self) -> Applied:
        given = read_transcript(long_conversation()).view(None)
        return apply_policy(self.policy, given, _limits(), system="Be brief.")


def _limits() -> Limits:
    return Limits(window_tokens=WINDOW_TOKENS, output_tokens=1_000)
