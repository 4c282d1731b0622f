"""The system prompt: its order, its blanks, its clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from inline_snapshot import snapshot
from support.tables import table

from everturn_actors.context.prompt import system_prompt
from everturn_actors.spec import PromptSpec

AT = datetime(2026, 11, 21, 22, 49, 56, tzinfo=UTC)


def test_the_order_is_fixed() -> None:
    """Static text first: a provider's prefix cache ends at the first byte that differs."""
    prompt = PromptSpec(
        soul="I am kind.\n",
        system_prompt="You help.\n\n- a\n- b\n",
        instructions="Do this.",
        directives=("Be short.", "Never guess."),
    )

    assert system_prompt(prompt, instructions="Speak French.", at=AT) == snapshot("""\
I am kind.

You help.

- a
- b

Do this.

Speak French.

## Directives
- Be short.
- Never guess.\
""")

    # Its further lines must not look like text of the prompt itself.
    prompt = PromptSpec(directives=("Answer:\nin one line\n\nalways\n",))

    assert system_prompt(prompt, at=AT) == snapshot("""\
## Directives
- Answer:
  in one line

  always\
""")


def test_empty_texts_leave_no_gap() -> None:
    """A missing file's blank lines would be sent with every request."""
    prompt = PromptSpec(
        soul="", system_prompt="You help.", instructions=" \n", directives=("", " ")
    )

    assert system_prompt(prompt, at=AT) == "You help."

    # An empty system message is refused by some providers.
    assert system_prompt(PromptSpec(), at=AT) == ""


@table("at", [AT, AT.astimezone(timezone(timedelta(hours=9))), AT.replace(second=0)])
def test_the_clock_is_that_of_the_turn_in_utc(at: datetime) -> None:
    """Minutes, not seconds, and the turn's start: a restart has to render the same bytes."""
    prompt = PromptSpec(soul="{{date}}", system_prompt="{{time}}", directives=("on {{date}}",))

    assert system_prompt(prompt, at=at) == snapshot("""\
2026-11-21

22:49 UTC

## Directives
- on 2026-11-21\
""")


def test_other_braces_and_the_callers_text_stay_as_they_are() -> None:
    """Prompts may hold templates of their own, and a caller's text is not the agent's file."""
    prompt = PromptSpec(system_prompt="{{name}} {date} {{ date }}")

    assert system_prompt(prompt, instructions="say {{date}}", at=AT) == (
        "{{name}} {date} {{ date }}\n\nsay {{date}}"
    )

    # A report without a running turn has no instant, and may not make one up.
    assert system_prompt(PromptSpec(soul="{{date}}")) == "{{date}}"
