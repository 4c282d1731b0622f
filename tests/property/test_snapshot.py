"""`state.yaml`: every state comes back whole, by the fast way and by any YAML parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import get_args

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace
from support.histories import HOSTILE, delivered_log, histories, outage_log, rich_log
from support.tables import table

from everturn.testing._histories import KEY, SESSION_ID, replay, simple_log, started
from everturn_actors.codec import Codec
from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import Event, SessionStarted
from everturn_actors.gaps import Gap, GapCause
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.journal.snapshot.reader import (
    BadSnapshotError,
    decode_header,
    decode_state,
    read_fast,
    read_yaml,
)
from everturn_actors.journal.snapshot.state_yaml import FORMAT, encode_state
from everturn_actors.model import (
    Attachment,
    Chunk,
    OpenStep,
    OpenTurn,
    OutboxItem,
    PendingAmbient,
    PromptFingerprint,
    Reductions,
    Replaced,
    Reply,
    Step,
    Summary,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState


@table("log", [rich_log, delivered_log, outage_log])
def test_a_replay_from_every_snapshot_of_a_rich_turn_gives_the_same_state(
    log: Callable[[], tuple[Event, ...]],
) -> None:
    """IN-07: broken replies, steering, open questions and outbox items stand in a snapshot too."""
    events = log()
    whole = replay(events)

    for at in range(1, len(events) + 1):
        recovered = recover(decode_state(encode_state(replay(events[:at]))), events)
        assert recovered is not None
        assert recovered.state == whole


def _record(bounds: list[int], causes: list[GapCause], reported: list[bool]) -> ArchiveRecord:
    pairs = zip(bounds[::2], bounds[1::2], strict=False)
    gaps = tuple(
        Gap(first=first, last=last - 1, cause=cause, is_reported=is_reported)
        for (first, last), cause, is_reported in zip(pairs, causes, reported, strict=False)
    )
    return ArchiveRecord(last_seq=sum(bounds), size_bytes=len(bounds), gaps=gaps)


_BOUNDS = st.lists(st.integers(1, 2**53), unique=True, max_size=12).map(sorted)
_CAUSES: st.SearchStrategy[list[GapCause]] = st.lists(
    st.sampled_from(get_args(GapCause)), min_size=6, max_size=6
)


@given(st.builds(_record, _BOUNDS, _CAUSES, st.lists(st.booleans(), min_size=6, max_size=6)))
@example(ArchiveRecord())
def test_what_is_known_of_the_archive_comes_back(record: ArchiveRecord) -> None:
    """A header is read quickly, as YAML, and beside a state that it does not change."""
    state = replay(rich_log())
    written = encode_state(state, record)

    assert decode_header(written).archive == record
    assert decode_header(written + b"# looked at it\n").archive == record
    assert decode_header(yaml.safe_dump(yaml.safe_load(written)).encode()).archive == record
    assert decode_state(written) == state
    assert decode_header(encode_state(state)).archive is None


@table(
    "value",
    [
        "7",
        "[]",
        '{"last_seq":1,"size_bytes":-1,"gaps":[]}',
        '{"last_seq":true,"size_bytes":1,"gaps":[]}',
        '{"last_seq":1,"size_bytes":1,"gaps":{}}',
        '{"last_seq":1,"size_bytes":1,"gaps":[7]}',
        '{"last_seq":1,"size_bytes":1,"gaps":[{"first":2,"last":1,"cause":"lost"}]}',
        '{"last_seq":1,"size_bytes":1,"gaps":[{"first":1,"last":1,"cause":"fun"}]}',
    ],
)
def test_a_record_of_the_archive_that_makes_no_sense_is_named(value: str) -> None:
    """It is treated as every other slip of an editor: by its line."""
    data = encode_state(FULL, ArchiveRecord(last_seq=1))
    bad = re.sub(rb"(?m)^archive: .*$", b"archive: " + value.encode(), data)
    for read in (decode_state, decode_header):
        with pytest.raises(BadSnapshotError, match=r"line \d+: archive"):
            read(bad)


def hostile(text: str) -> tuple[Event, ...]:
    """Return the log of a session whose instructions are `text`."""
    body = SessionStarted(session_id=SESSION_ID, key=KEY, instructions=text)
    return (replace(started(), body=body),)


def of_the_version_before(data: bytes) -> bytes:
    """Return a state as the version before wrote it."""
    for now, then in (
        (b"state-v7", b"state-v6"),
        (b'"pending_since":', b'"owed_at":'),
        (b'"notified_of_outage":', b'"told_of_outage":'),
        (b'"notified_of_drops":', b'"told_of_drops":'),
    ):
        data = data.replace(now, then)
    return data


@given(histories(), st.data())
@example(hostile(HOSTILE), None)
@example(rich_log(), None)
@example(delivered_log(), None)
@example(outage_log(), None)
def test_every_state_comes_back_as_it_was(
    events: tuple[Event, ...], data: st.DataObject | None
) -> None:
    """IN-07: a session that starts from its snapshot must not differ from one that did not."""
    state = replay(events)
    written = encode_state(state)
    touched = written + b"# looked at it\n"  # which sends the file through the YAML parser
    header = decode_header(written)

    seen = yaml.safe_load(written.decode())  # as people's tools see it
    assert seen.pop("format") == FORMAT
    assert Codec[SessionState](SessionState).load(seen) == replace(
        state, checkpointed_messages=0, pending_messages=0
    )
    assert read_fast(written) is not None
    assert decode_state(written) == state
    assert encode_state(decode_state(written)) == written
    assert read_fast(touched) is None
    assert decode_state(touched) == state
    before = of_the_version_before(written)
    assert read_fast(before) == read_fast(written)
    assert decode_state(before + b"# looked at it\n") == state
    assert (header.session_id, header.key, header.status, header.created_at, header.last_seq) == (
        state.session_id,
        state.key,
        state.status,
        state.created_at,
        state.last_seq,
    )
    if data is not None:
        at = data.draw(st.integers(1, len(events)))
        recovered = recover(decode_state(encode_state(replay(events[:at]))), events)
        assert recovered is not None
        assert recovered.state == state  # whenever a restart came
        assert encode_state(recovered.state) == written


@table("character", HOSTILE.replace(" ", ""))
def test_no_character_breaks_the_file(character: str) -> None:
    """One pasted control character must not make a conversation unreadable."""
    text = f"a{character}b {character}"
    state = replay(hostile(text))
    data = encode_state(state)

    assert decode_state(data).instructions == text
    assert yaml.safe_load(data.decode())["instructions"] == text
    if not "\ud800" <= character <= "\udfff":  # which libyaml takes in no form
        assert yaml.load(data.decode(), yaml.CSafeLoader)["instructions"] == text


REPLY = Reply(
    seq=9,
    text="let me see",
    calls=(ToolCall(call_id="a", name="bash"), ToolCall(call_id="b", name="web")),
    usage=Usage(input_tokens=5, output_tokens=6),
    stop_reason="tool_calls",
    model="test-model",
)
RESULTS = (
    ToolResult(seq=10, call_id="a", name="bash", text="done", path="a.txt"),
    ToolResult(seq=11, call_id="b", name="web", text="no route", is_error=True),
)
FULL = replace(
    replay(simple_log(1)),
    turns=3,
    waiting=(UserMessage(seq=20, text="still there?", sender="bob"),),
    checkpointed=(
        Turn(
            number=1,
            users=(UserMessage(seq=2, text="hi", sender="alice"),),
            steps=(Step(reply=REPLY, results=RESULTS), Step(reply=Reply(seq=12, text="it works"))),
        ),
    ),
    checkpointed_messages=5,
    pending=(
        Turn(number=2, users=(UserMessage(seq=14, text="go on"),), outcome="failed", error="down"),
    ),
    pending_messages=1,
    open_turn=OpenTurn(
        number=3,
        users=(UserMessage(seq=16, text="again", reply_to="45", joins="burst"),),
        delivers=True,
        preview_step=1,
        preview_id="79",
        started_at=started().at,
        step=OpenStep(reply=REPLY, started=("a",), results={"b": RESULTS[1]}),
    ),
    reductions=Reductions(
        cut_turn=1,
        dropped=frozenset([12, 5]),
        summary=Summary(last_turn=0, messages=7, text="They met.", source="digest", path="0.txt"),
        replaced={
            10: Replaced(seq=10, disposition="cleared", text="[cleared]"),
            9: Replaced(seq=9, disposition="shortened", text="let", arguments=("{}", '{"a":1}')),
        },
        note="2 messages left in an emergency.",
        failures=1,
        retry_at=started().at,
    ),
    fingerprint=PromptFingerprint(prefix="9f86d081", messages=3, units=12_345),
    reported=Usage(input_tokens=130, output_tokens=6, cached_tokens=100),
    cache_misses=2,
    ambient=(
        PendingAmbient(seq=15, text="lunch?", until=started().at, sender="eve", untrusted=True),
    ),
    outbox=(
        OutboxItem(
            seq=12,
            turn=1,
            kind="reply",
            text="it works",
            reply_to="44",
            preview="77",
            chunks=(
                Chunk(payload="it", mark="sent", platform_id="77"),
                Chunk(payload="works", mark="unknown", tries=1),
            ),
        ),
        OutboxItem(
            seq=13,
            turn=1,
            kind="file",
            attachments=(Attachment(name="ab.png", media_type="image/png", size_bytes=5),),
        ),
        OutboxItem(seq=17, turn=2, kind="approval", text="it writes", call_id="a", chunks=()),
        OutboxItem(seq=18, turn=2, kind="end", text="down", outcome="failed"),
    ),
)


def test_a_person_can_read_and_compare_the_file() -> None:
    """The format is documented; it does not change by accident."""
    assert encode_state(FULL).decode() == snapshot("""\
# What this session knew at event `last_seq`. The log, events.jsonl, is the truth; with this file
# only what was logged later has to be replayed. Below the header stand turns and messages, each
# message on a line of its own, and what the model sees in place of messages. While Everturn is
# stopped, the file may be edited by hand: any valid YAML of the same fields will do.
format: everturn/state-v7
session: "20261121T224956123-3f9a2c1b"
conversation: {"channel":"http","chat":"c1","agent":"assistant"}
status: "active"
created: "2026-11-21T22:49:57.123456Z"
updated: "2026-11-21T22:50:02.123456Z"
last_seq: 6
turns: 3
logged_messages: 2
usage: {"input_tokens":9,"output_tokens":3}
fingerprint: {"prefix":"9f86d081","messages":3,"units":12345}
reported: {"input_tokens":130,"output_tokens":6,"cached_tokens":100}
replied_at: "2026-11-21T22:50:01.123456Z"
cache_misses: 2
seen: {"key-1":2}
waiting:
- {"role":"user","seq":20,"text":"still there?","sender":"bob"}
open_turn: {"number":3,"users":[
  {"role":"user","seq":16,"text":"again","reply_to":"45","joins":"burst"}],"started_at":"2026-11-21T22:49:56.123456Z","step":{"reply":
  {"role":"assistant","seq":9,"text":"let me see","calls":[{"call_id":"a","name":"bash","arguments":"{}"},{"call_id":"b","name":"web","arguments":"{}"}],"usage":{"input_tokens":5,"output_tokens":6},"stop_reason":"tool_calls","model":"test-model"},"started":["a"],"results":{"b":
  {"role":"tool","seq":11,"call_id":"b","name":"web","text":"no route","is_error":true}}},"delivers":true,"preview_step":1,"preview_id":"79"}
checkpointed:
- {"number":1,"users":[
  {"role":"user","seq":2,"text":"hi","sender":"alice"}],"steps":[{"reply":
  {"role":"assistant","seq":9,"text":"let me see","calls":[{"call_id":"a","name":"bash","arguments":"{}"},{"call_id":"b","name":"web","arguments":"{}"}],"usage":{"input_tokens":5,"output_tokens":6},"stop_reason":"tool_calls","model":"test-model"},"results":[
  {"role":"tool","seq":10,"call_id":"a","name":"bash","text":"done","path":"a.txt"},
  {"role":"tool","seq":11,"call_id":"b","name":"web","text":"no route","is_error":true}]},{"reply":
  {"role":"assistant","seq":12,"text":"it works"}}]}
pending:
- {"number":2,"users":[
  {"role":"user","seq":14,"text":"go on"}],"outcome":"failed","error":"down"}
reductions: {"replaced":{
  "9":{"seq":9,"disposition":"shortened","text":"let","arguments":["{}","{\\"a\\":1}"]},
  "10":{"seq":10,"disposition":"cleared","text":"[cleared]"}
  },"cut_turn":1,"dropped":[5,12],
  "summary":{"last_turn":0,"messages":7,"text":"They met.","source":"digest","path":"0.txt"},"note":"2 messages left in an emergency.","failures":1,"retry_at":"2026-11-21T22:49:56.123456Z"}
ambient:
- {"seq":15,"text":"lunch?","until":"2026-11-21T22:49:56.123456Z","sender":"eve","untrusted":true}
outbox:
- {"seq":12,"turn":1,"kind":"reply","text":"it works","reply_to":"44","preview":"77","chunks":[{"payload":"it","mark":"sent","platform_id":"77"},{"payload":"works","mark":"unknown","tries":1}]}
- {"seq":13,"turn":1,"kind":"file","attachments":[{"name":"ab.png","media_type":"image/png","size_bytes":5}]}
- {"seq":17,"turn":2,"kind":"approval","text":"it writes","call_id":"a","chunks":[]}
- {"seq":18,"turn":2,"kind":"end","text":"down","outcome":"failed"}
""")  # noqa: E501 - the format has one line for each message
    assert decode_state(encode_state(FULL)) == FULL


def edited(pattern: str, by: str) -> bytes:
    """Return the file of `FULL` after an edit by hand."""
    text, times = re.subn(pattern, by, encode_state(FULL).decode(), count=1, flags=re.MULTILINE)
    assert times == 1
    return text.encode()


def test_a_file_edited_by_hand_means_what_it_says() -> None:
    """Somebody who corrects a text in their editor, or lets a tool reindent, gets what they see."""
    document = yaml.safe_load(encode_state(FULL).decode())
    document["checkpointed"][0]["steps"][1]["reply"]["text"] = "fine\nnow"
    document["created"] = FULL.created_at  # written without quotes: YAML has a type for it
    data = b"# mine\n" + yaml.safe_dump(document, indent=4, width=60).encode()
    state = decode_state(data)

    assert read_fast(data) is None
    assert state.checkpointed[0].text == "fine\nnow"
    assert replace(state, checkpointed=FULL.checkpointed) == FULL

    # A person who takes a line out sees the model get the message back.
    text = encode_state(FULL).decode()
    line = next(line for line in text.splitlines(keepends=True) if '"cleared"' in line)
    state = decode_state(text.replace(line, "").encode())

    assert [*state.reductions.replaced] == [9]
    assert replace(state, reductions=FULL.reductions) == FULL

    # Some editors turn every newline into two characters.
    data = encode_state(FULL).replace(b"\n", b"\r\n")

    assert decode_state(data) == FULL

    # A person may clear what waits.
    text = encode_state(FULL).decode()
    begin, end = text.index("waiting:"), text.index("open_turn:")

    assert decode_state((text[:begin] + text[end:]).encode()) == replace(FULL, waiting=())

    # A line such as we write, but with YAML's own spelling in it, means what YAML says.
    data = edited('"text":"hi"', "text: 'it''s me'")

    assert read_fast(data) is None
    assert decode_state(data).checkpointed[0].users[0].text == "it's me"
    assert read_yaml(data)["session"] == SESSION_ID


def test_equal_states_give_equal_bytes() -> None:
    """Files are compared and copied; the order in which things were hidden says nothing."""
    reductions = FULL.reductions
    turned = replace(
        reductions,
        replaced=dict(reversed([*reductions.replaced.items()])),
        dropped=frozenset(reversed([*reductions.dropped])),
    )
    state = replace(FULL, reductions=turned)

    assert state == FULL
    assert encode_state(state) == encode_state(FULL)


@table(
    ("pattern", "by", "said"),
    [
        pytest.param("^last_seq: 6", "last_seq: six", r"line \d+: last_seq must be int", id="kind"),
        pytest.param("^last_seq: 6\n", "", "last_seq is missing", id="missing"),
        pytest.param("^turns:", "turn:", r"line \d+: turn is a field that this ver", id="unknown"),
        pytest.param("^status: .*", "status: asleep", "status is 'asleep', which", id="status"),
        pytest.param(
            "^created: .*", "created: today", r"line \d+: created cannot stand: ", id="time"
        ),
        pytest.param("^created: .*", "created: 2026-11-21 10:00:00", "timezone", id="zone"),
        pytest.param(
            "^created: .*", 'created: "2026-11-21T10:00:00+02:00"', "must be in UTC", id="not UTC"
        ),
        pytest.param(
            "^conversation: .*", "conversation: {chat: a}", "channel is missing", id="key"
        ),
        pytest.param("^conversation: .*", "conversation: c1", "conversation must", id="no mapping"),
        pytest.param("^usage: .*", "usage: {input_tokens: many}", "usage.input_tok", id="usage"),
        pytest.param('"role":"user"', '"role":"boss"', "role is 'boss', which", id="role"),
        pytest.param('"text":"hi"', '"txt":"hi"', r"line \d+: .*txt", id="field of a message"),
        pytest.param('"text":"hi"', '"text":5', r"users\[0\].text must be str", id="kind of text"),
        pytest.param(r'\{"role":"tool","seq":10[^}]*\},', "", "one result", id="half"),
        pytest.param(
            '"outcome":"failed"', '"outcome":"won"', "outcome is 'won', which", id="outcome"
        ),
        pytest.param('"number":1', '"number":"1"', "number must be int", id="turn"),
        pytest.param(r"^waiting:\n- .*$", "waiting: {}", "waiting must be array", id="section"),
        pytest.param(r"^waiting:\n- .*$", "waiting: [a]", r"waiting\[0\] must be o", id="entry"),
        pytest.param('"key-1":2', '"key-1":"2"', "seen.* must be int", id="seen"),
        pytest.param(
            r"^open_turn: (.|\n)*?(?=^checkpointed)",
            "open_turn: 5\n",
            "open_turn must be object",
            id="open turn",
        ),
        pytest.param('"cut_turn":1', '"cut_turn":"1"', "cut_turn must be int", id="cut"),
        pytest.param('"cut_turn"', '"cut_turns"', "reductions.cut_turns is a", id="cuts"),
        pytest.param('"dropped":.5,12.', '"dropped":5', "dropped must be array", id="dropped"),
        pytest.param('"dropped":.5', '"dropped":["5"', r"dropped.* must be int", id="of dropped"),
        pytest.param(
            '"retry_at":"[^"]+"', '"retry_at":"soon"', "reductions.retry_at cannot", id="retry"
        ),
        pytest.param('"units":12345', '"units":1.5', "fingerprint.units must be int", id="print"),
        pytest.param("^reported: .*", "reported: []", "reported must be object", id="reported"),
        pytest.param(
            "^cache_misses: 2", "cache_misses: two", "cache_misses must be int", id="cache_misses"
        ),
        pytest.param(
            '"source":"digest"', '"source":"me"', "summary.source is 'me', which", id="source"
        ),
        pytest.param('"last_turn":0', '"last_turn":null', "last_turn must be int", id="last"),
        pytest.param(
            '"disposition":"cleared"',
            '"disposition":"eaten"',
            "disposition is 'eaten', which",
            id="eaten",
        ),
        pytest.param('"disposition":"cleared",', "", "disposition is missing", id="no disposition"),
        pytest.param('"arguments":."{}",', '"arguments":[5,', r"arguments\[0\] must", id="args"),
        pytest.param(
            '"seq":10,"disposition"', '"seq":9,"disposition"', "has the seq 9", id="twice"
        ),
        pytest.param('"path":"a.txt"', '"path":7', r"line \d+: .*path must be str", id="path"),
        pytest.param('"mark":"sent"', '"mark":"lost"', "mark is 'lost', which", id="mark"),
        pytest.param('"kind":"file"', '"kind":"box"', "kind is 'box', which", id="item"),
        pytest.param('"kind":"file",', "", "kind is missing", id="no kind"),
        pytest.param('"chunks":.{', '"chunks":["it",{', r"line \d+: ", id="text for a chunk"),
        pytest.param(r'"chunks":\[\]', '"chunks":"it"', r"line \d+: ", id="text for chunks"),
        pytest.param('"attachments":.{', '"attachments":[5,{', r"line \d+: ", id="attachment"),
        pytest.param('"until":"[^"]+"', '"until":"noon"', r"line \d+: .*until cannot", id="until"),
        pytest.param('"until":"[^"]+",', "", r"line \d+: .*until", id="no until"),
        pytest.param("^turns: 3", "turns: 2", r"line \d+: turns must be", id="turns"),
        pytest.param("^last_seq: 6", "last_seq: 0", "last_seq must be", id="last_seq"),
        pytest.param("^last_seq: 6", "last_seq: 6\ncheckpoint_seq: 7", "from 0 to las", id="seqs"),
        pytest.param('"number":2', '"number":1', "turn 1 stands after turn 1", id="order"),
        pytest.param('"number":3', '"number":2', "turn 2 stands after turn 2", id="back"),
        pytest.param(r'\{"role":"user","seq":2,[^}]*\}', "", "no message of the user", id="asked"),
        pytest.param('"call_id":"b","name"', '"call_id":"a","name"', "the same call_id", id="ids"),
        pytest.param(r'"started":\["a"\]', '"started":["c"]', "no call 'c'", id="started"),
        pytest.param(r'"started":\["a"\]', '"started":"a"', "started must be array", id="texts"),
        pytest.param('"delivers":true', '"delivers":1', "delivers must be bool", id="delivers"),
        pytest.param(
            '"outcome":"failed"', '"steered":[{"after_steps":1,"users":[]}]', "after_", id="steered"
        ),
        pytest.param(
            r'(?<="started":\["a"\])',
            ',"approvals":{"a":{"call_id":"a","arguments_hash":"","approvers":"ann",'
            '"expires_at":"2026-11-21T22:49:56Z"}}',
            "approvers must be array",
            id="approvers",
        ),
        pytest.param("^turns: 3", "turns: 2026-13-45", "'2026-13-45' is no time", id="no time"),
        pytest.param("^turns: 3", "turns: !!bool maybe", "'maybe' is no bool", id="no bool"),
        pytest.param("^usage: ", "usage: &u ", r"line \d+: .* no name \(&u\)", id="anchor"),
        pytest.param("^usage: ", f"usage: {'[' * 200}", r"line \d+: .* nested deeper", id="deep"),
        pytest.param("^format: .*\n", "", "'format' is missing", id="format"),
        pytest.param("^status:", "\tstatus:", r"line \d+: this is not YAML", id="tab"),
        pytest.param("^status:", "status: [", r"line \d+: this is not YAML", id="bracket"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(pattern: str, by: str, said: str) -> None:
    """Whoever edited the file has to find their slip, in a file of thousands of lines."""
    with pytest.raises(BadSnapshotError, match=said) as caught:
        decode_state(edited(pattern, by))

    assert re.search(r"line \d+", str(caught.value))


def test_the_line_of_a_bad_message_is_named() -> None:
    """The number is the line in the file, not the number of the message."""
    data = edited('"text":"hi"', '"text":5')
    line = 1 + data.split(b'"text":5')[0].count(b"\n")

    with pytest.raises(BadSnapshotError, match=rf"^line {line}:"):
        decode_state(data)


@table(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[1, 2]\n", id="a list"),
        pytest.param(b"format: everturn/state-v7\n\xff\xfe\n", id="no UTF-8"),
        pytest.param(b"format: everturn/state-v7\n\x00\x01\n", id="control characters"),
        pytest.param(bytes(4096), id="zeros"),
    ],
)
def test_what_is_no_state_at_all_is_refused(data: bytes) -> None:
    """A crash of the machine can leave zeros or rubbish where a file was."""
    with pytest.raises(BadSnapshotError, match=r"^line \d+: "):
        decode_state(data)


def test_a_state_of_another_version_is_told_from_damage() -> None:
    """The operator has to upgrade; a rebuild from the log would lose what that version knew."""
    newer = edited("^format: .*", "format: everturn/state-v8")
    with pytest.raises(UnknownFormatError, match=r"everturn/state-v8"):
        decode_state(newer)
    with pytest.raises(UnknownFormatError, match=r"everturn/state-v8"):
        decode_header(newer)

    # Of an older one the log has all: the way out is told.
    with pytest.raises(UnknownFormatError, match=r"state-v5.*everturn upgrade"):
        decode_state(edited("^format: .*", "format: everturn/state-v5"))


def test_the_state_of_a_session_that_only_began_is_small() -> None:
    """Thousands of sessions hold a single message."""
    state: SessionState = replay((started(),))

    assert len(encode_state(state)) < 1024
