"""Frames between nodes: nothing is lost on the way, and nothing unknown comes in."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversations import STARTED
from support.tables import table

from everturn_actors import errors
from everturn_actors.cluster.frames import (
    SPEAKS,
    Answered,
    Ask,
    Frame,
    Text,
    UnreadableFrameError,
    common_version,
    error_of,
    failure_of,
    pack,
    pack_answer,
    unpack,
    unpack_answer,
)
from everturn_actors.errors import (
    ActorFailedError,
    CoreError,
    LinkRefusedError,
    MailboxFullError,
    SessionEndedError,
)
from everturn_actors.events import SessionStarted
from everturn_actors.model import (
    Attachment,
    CallOptions,
    ConversationKey,
    IncomingMessage,
    Labels,
    Turn,
    UserMessage,
)
from everturn_actors.protocol.commands import (
    Accepted,
    AnyCommand,
    Compact,
    Compacted,
    Edit,
    End,
    GetStatus,
    KnownStatus,
    Label,
    OutsideCommand,
    Share,
    Submit,
)

KEY = ConversationKey(channel="test", chat="1", agent="a")
COUNTS = st.integers(0, 2**53)
BEGINNINGS = st.builds(SessionStarted, session_id=st.text(), key=st.just(KEY))
INBOUND = st.builds(
    IncomingMessage,
    text=st.text(),
    key=st.none() | st.just(KEY),
    sender=st.text(),
    attachments=st.just(()),  # the bytes of files are kept before, and never sent
    options=st.none() | st.builds(CallOptions, tools=st.just(()), response_format=st.just({})),
)
COMMANDS: dict[object, st.SearchStrategy[OutsideCommand]] = {
    Submit: st.builds(Submit, INBOUND, st.lists(st.from_type(Attachment)).map(tuple))
}
HELD = Turn(number=3, users=(UserMessage(seq=5, text="hi"),), outcome="answered")
ACCEPTED = st.builds(
    Accepted,
    seq=COUNTS,
    at=st.just(STARTED),
    last_seq=COUNTS,
    open_turn=COUNTS,
    outside=st.lists(COUNTS).map(tuple),
    held=st.none() | st.just(HELD),
)
OWN = {"GetState", "RecordTurn", "RecordDelivery", "Summary", "Pause", "Stop"}
"Commands of an actor's own tasks, or of its process alone."


def there_and_back(frame: Frame) -> object:
    """Return a frame as another node reads it."""
    sent = pack(frame)
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    return unpack(sent[4:])


def test_what_comes_from_outside_may_travel_and_nothing_else() -> None:
    """A new command has to be put on one of the two sides by whoever adds it."""
    outside = {each.__name__ for each in get_args(OutsideCommand)}

    assert outside | OWN == {each.__name__ for each in get_args(AnyCommand)}
    assert not outside & OWN


@table("kind", get_args(OutsideCommand))
def test_every_command_arrives_as_it_was_given(kind: type[Any]) -> None:
    """What a session is asked does not depend on the process in which it was asked."""

    @given(COMMANDS.get(kind, st.from_type(kind)), st.none() | BEGINNINGS, COUNTS)
    def round_trip(command: OutsideCommand, begin: SessionStarted | None, number: int) -> None:
        ask = Ask(number=number, session_id="s", command=command, begin_with=begin)

        assert there_and_back(ask) == ask

    round_trip()


@given(ACCEPTED, st.text(), st.booleans(), st.from_type(Compacted))
def test_every_answer_arrives_as_it_was_given(
    accepted: Accepted, text: str, flag: bool, compacted: Compacted
) -> None:
    """Whoever asked elsewhere goes on with the very same values."""
    rows: tuple[tuple[object, object], ...] = (
        (Submit(IncomingMessage(text="x")), accepted),
        (Edit("k", text), flag),
        (End("reset"), None),
        (GetStatus(), KnownStatus(status="ended", ended_reason=text, is_known=flag)),
        (Share(principal="a", by="b", is_withdrawn=False), (text, "b")),
        (Label(title=None, pinned=None, archived=None, by=""), Labels(title=text, pinned=flag)),
        (Compact(""), compacted),
    )
    for command, answer in rows:
        said = there_and_back(Answered(number=1, answer=pack_answer(answer)))

        assert isinstance(said, Answered)
        assert unpack_answer(command, said.answer) == answer


@given(st.text(st.characters(codec=None)), st.integers(0, 9))
def test_half_characters_of_a_reply_arrive(text: str, offset: int) -> None:
    """A model may send them, and a frame that cannot be made would break the link."""
    frame = Text(number=1, turn=1, step=1, offset=offset, text=text)
    back = there_and_back(frame)

    assert isinstance(back, Text)
    assert back.offset == offset
    assert back.text.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


@table("name", [each for each in errors.__all__ if each[0].isupper()])
def test_every_error_arrives_as_what_it_is(name: str) -> None:
    """HTTP and channels decide by its class, and people read its text."""
    kind: type[CoreError] = getattr(errors, name)
    error = kind.__new__(kind, "why it is so")
    vars(error).update(session_id="s", retry_after_s=1.5)

    back = error_of(failure_of(error))

    assert type(back) is kind
    assert str(back) == "why it is so"
    assert vars(back) == vars(error)


def test_an_error_brings_its_cause_and_no_foreign_secret() -> None:
    """What an unforeseen error says may hold a key; its kind alone is told."""
    ended = error_of(failure_of(SessionEndedError("s", "reset")))
    failed = error_of(failure_of(ActorFailedError("s", MailboxFullError())))
    unforeseen = error_of(failure_of(RuntimeError("the key is sk-1")))

    assert isinstance(ended, SessionEndedError)
    assert (ended.reason, str(ended)) == ("reset", str(SessionEndedError("s", "reset")))
    assert isinstance(failed, ActorFailedError)
    assert isinstance(failed.cause, MailboxFullError)
    assert (type(unforeseen), str(unforeseen)) == (CoreError, "RuntimeError")


UNREADABLE = (
    (b"", None),
    (b"[]", None),
    (b'{"frame":"pong"}', None),
    (b'{"frame":"ask","number":7,"session_id":"s","command":{"command":"stop"}}', 7),
    (b'{"frame":"ask","number":7,"session_id":"s","command":{"command":"fly"}}', 7),
    (b'{"frame":"ask","number":7,"session_id":"s","command":{"command":"cancel","at":1}}', 7),
    (b'{"frame":"ask","number":-7,"session_id":"s","command":{"command":"cancel"}}', -7),
    (b'{"frame":"moved","number":1,"why":"later"}', 1),
    (b"\x80\x04K\x01.", None),
)


@table(("body", "number"), UNREADABLE)
def test_what_is_not_known_is_refused_by_name(body: bytes, number: int | None) -> None:
    """A command that was half understood would be another command."""
    with pytest.raises(UnreadableFrameError) as found:
        unpack(body)

    assert found.value.number == number


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(body: bytes) -> None:
    """A frame, or one error."""
    with suppress(UnreadableFrameError):
        unpack(body)


def test_two_neighbours_understand_each_other_and_strangers_are_told_why() -> None:
    """Nodes are renewed one by one: old and new run side by side for a while."""
    assert common_version(SPEAKS, SPEAKS, "b") == SPEAKS[1]
    assert common_version((1, 2), (2, 3), "b") == 2
    assert common_version((2, 3), (1, 2), "b") == 2
    with pytest.raises(LinkRefusedError, match=r"node 'b' runs a later Everturn.*speak versions 4"):
        common_version((1, 2), (4, 5), "b")
    with pytest.raises(LinkRefusedError, match="an earlier Everturn"):
        common_version((3, 4), (1, 2), "b")
