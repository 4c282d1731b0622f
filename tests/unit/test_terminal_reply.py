"""What a person sees of a conversation's updates."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from support.tables import table

from everturn_actors.events import (
    Announced,
    ApprovalAsked,
    Body,
    CallFinished,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    StatusChanged,
    TurnFinished,
)
from everturn_actors.model import ToolCall
from everturn_actors.service import TextDelta, Update
from everturn_channels.names import clean
from everturn_channels.terminal.reply import ReplyReader
from everturn_channels.terminal.screen import Screen

AT = datetime(2026, 1, 2, tzinfo=UTC)


def event(body: Body, seq: int = 1) -> Event:
    """Return an event."""
    return Event(seq=seq, at=AT, body=body)


def delta(text: str, offset: int, *, turn: int = 1, step: int = 1) -> TextDelta:
    """Return a piece of a reply."""
    return TextDelta(turn=turn, step=step, offset=offset, text=text)


def shown(updates: Iterable[Update], *, show_users: bool = False, colour: bool = False) -> str:
    """Return what stands on the screen after `updates`."""
    written: list[str] = []
    reader, screen = ReplyReader(show_users=show_users), Screen(written.append, colour=colour)
    for update in updates:
        screen.show(reader.read(update))
    return "".join(written)


@table(
    ("updates", "text"),
    [
        # A person reads along, and must not read it twice when the event arrives.
        ([delta("Hel", 0)], "Hel"),
        ([delta("Hel", 0), delta("lo", 3), event(ModelReplied(text="Hello"))], "Hello\n"),
        # Whoever joins after the last piece still has to see the reply.
        ([event(ModelReplied(text="Hello"))], "Hello\n"),
        # Who looks on sees what is said without a turn, and where it comes from.
        (
            [event(Announced(text="Stand\x1b-up!", title="Job\x07"))],
            "(from Job)\nStand-up!\n",
        ),
        ([event(Announced(text="Hi\n"))], "Hi\n"),
        # That may come while the model speaks, and must not have it said again.
        (
            [
                delta("Hel", 0),
                event(Announced(text="Stand-up!")),
                delta("lo", 3),
                event(ModelReplied(text="Hello")),
            ],
            "Hel\nStand-up!\nlo\n",
        ),
        # After a lost connection the text so far comes again as one piece.
        ([delta("Hello ", 0), delta("Hello wor", 0), delta("ld", 9)], "Hello world"),
        # A call that is made again with the same words goes on where it was ...
        (
            [delta("One two", 0), delta("One ", 0), delta("two ", 4), delta("three", 8)],
            "One two three",
        ),
        # ... and with other words it is told: what was read is not what will be kept.
        (
            [
                delta("One two", 0),
                delta("Tw", 0),
                delta("o", 2),
                event(ModelReplied(text="Two")),
            ],
            "One two\n(the model was asked again)\nTwo\n",
        ),
        # The event is the truth, whatever was streamed.
        (
            [delta("Hello there", 0), event(ModelReplied(text="Hello"))],
            "Hello there\n(the model was asked again)\nHello\n",
        ),
    ],
)
def test_a_reply_is_shown_as_it_comes_and_once(updates: list[Update], text: str) -> None:
    """Whatever comes of it in pieces, again, or as a whole."""
    assert shown(updates) == text


def test_steps_and_turns_are_shown_apart() -> None:
    """The text before a tool call is not part of the answer after it."""
    call = ToolCall(call_id="c1", name="look", arguments='{"where": "here"}')
    updates: list[Update] = [
        delta("Let me look.", 0),
        event(ModelReplied(text="Let me look.", calls=(call,))),
        event(CallFinished(call_id="c1", text="no such place\nat all", is_error=True)),
        delta("Nothing.", 0, step=2),
        event(ModelReplied(text="Nothing.")),
        delta("Next", 0, turn=2),
    ]

    assert shown(updates) == (
        'Let me look.\n  look {"where": "here"}\n  failed: no such place\nNothing.\nNext'
    )


def test_long_arguments_of_a_call_are_cut() -> None:
    """A call is a hint beside the answer, not a wall of text."""
    call = ToolCall(call_id="c1", name="write", arguments='{"text": "' + "x" * 5000 + '"}')

    assert len(shown([event(ModelReplied(text="", calls=(call,)))])) < 80


def test_every_end_of_a_turn_is_told() -> None:
    """A turn without an answer must not look like an empty one."""
    partial = delta("Hel", 0)
    failed = event(TurnFinished(turn=1, outcome="failed", error="no key"))
    cancelled = event(TurnFinished(turn=1, outcome="cancelled"))
    interrupted = event(TurnFinished(turn=1, outcome="interrupted", error="too long"))

    assert shown([partial, failed]) == "Hel\nno answer: no key\n"
    assert shown([partial, cancelled]) == "Hel\n(cancelled)\n"
    assert shown([partial, interrupted]) == "Hel\nthe answer was interrupted: too long\n"
    assert shown([event(SessionEnded(reason="reset"))]) == "(the session has ended: reset)\n"
    assert shown([event(StatusChanged(status="paused"))]) == "(paused)\n"


def test_other_peoples_messages_are_shown_to_who_looks_on() -> None:
    """In a chat a person knows what they typed; whoever attaches does not."""
    received = event(Received(text="Hello", sender="ann"))

    assert shown([received]) == ""
    assert shown([received], show_users=True) == "ann: Hello\n"


def test_control_characters_never_reach_the_terminal() -> None:
    """A model or a stranger must not move the cursor, set the title or hide text."""
    hostile = "a\x1b]0;title\x07b\x1b[2Jc\x9bd\re\x7f\n\tf"

    assert clean(hostile) == "a]0;titleb[2Jcde\n\tf"
    assert "\x1b" not in shown(
        [
            event(Received(text=hostile, sender=hostile)),
            delta(hostile, 0),
            event(ModelReplied(text=hostile, calls=(ToolCall(call_id="1", name=hostile),))),
            event(CallFinished(call_id="1", text=hostile, is_error=True)),
            event(TurnFinished(turn=1, outcome="failed", error=hostile)),
        ],
        show_users=True,
    )


def test_colours_mark_what_is_not_the_reply() -> None:
    """With colours a note stands back; the reply itself is never touched."""
    updates: list[Update] = [delta("Hel", 0), event(TurnFinished(turn=1, outcome="cancelled"))]

    assert shown(updates, colour=True) == "Hel\n\x1b[2m(cancelled)\x1b[0m\n"


def test_who_is_asked_sees_the_whole_call() -> None:
    """What is allowed must not hide behind the end of a line."""
    arguments = '{"command": "echo ' + "a" * 200 + '; python3 evil.py"}'
    call = ToolCall(call_id="1", name="bash", arguments=arguments)
    asked = ApprovalAsked(call_id="1", arguments_hash="", timeout_s=60, reason="it is not allowed")

    told = shown([event(ModelReplied(text="", calls=(call,))), event(asked)])

    assert "waits to be allowed: it is not allowed (call 1)" in told
    assert arguments in told


def test_a_to_do_list_is_shown_as_one() -> None:
    """Who waits for long work reads how far it is, not the arguments of a call."""
    items = '{"items": [{"text": "Boil\\u001b water", "status": "done"}, {"text": "Brew tea"}]}'
    call = ToolCall(call_id="1", name="todo", arguments=items)

    told = shown([event(ModelReplied(text="", calls=(call,)))])

    assert [line.strip() for line in told.splitlines()] == ["☑ Boil\\u001b water", "☐ Brew tea"]
