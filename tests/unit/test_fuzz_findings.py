"""What fuzzing found, one test each. The fuzz tests themselves are `property/test_fuzz_*`.

Findings in state.yaml stand in `property/test_snapshot`, those about Discord's messages in
`integration/test_discord_adapter`, and those about Telegram's updates in
`property/test_fuzz_telegram`, as its examples.
"""

from __future__ import annotations

import json
import re
import zlib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.tables import table

from everturn.testing._histories import SESSION_ID, replay, simple_log
from everturn_actors.errors import CorruptJournalError, UnknownFormatError
from everturn_actors.events import (
    AmbientStored,
    Event,
)
from everturn_actors.journal.log.codec import BadLineError, decode, load_json, seed
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_state
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.model import ConversationKey, IncomingMessage, ModelRequest, Reply, ToolCall
from everturn_actors.spec import SessionSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import recover
from everturn_actors.testing import make_spec, open_test_service
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import ConfigError
from everturn_gateway.providers.transport.model_errors import read_refusal
from everturn_gateway.providers.transport.opaque import pack
from everturn_gateway.providers.transport.parts import COUNT_MAX, count_of
from everturn_gateway.providers.transport.wire import BodyWriter
from everturn_gateway.tools.policy import AfterTool
from everturn_gateway.tools.policy.hooks import notes
from everturn_gateway.tools.policy.policy_files.writing import PolicyWriteError, add_allowed
from everturn_gateway.tools.skills import load_skills
from everturn_gateway.tools.web.converter import Order, work

START = seed(SESSION_ID)


# --- the journal -----------------------------------------------------------------------------


@table("body", [b"nul", b'{"v":2,"seq":01', b"[1", b"\xff"])
def test_a_line_with_a_right_checksum_that_is_no_json_is_refused(body: bytes) -> None:
    """It came out as an error of the parser, which no reader of logs expects."""
    line = body + b',"crc":"%08x"}' % zlib.crc32(body, START)

    with pytest.raises(BadLineError, match="no JSON"):
        decode(line, START)


def test_deep_json_with_an_escape_is_no_json() -> None:
    """The slow parser, which is needed for half characters alone, gave up with a RecursionError."""
    with pytest.raises(json.JSONDecodeError):
        load_json(b"[" * 200_000 + b'"\\ud800"')


@table("deep", [b"[" * 50_000 + b"]" * 50_000, b"- " * 50_000, b"{a: " * 5_000, b"? " * 5_000])
def test_a_deep_snapshot_does_not_end_the_process(deep: bytes) -> None:
    """Libyaml recurses in C: the gateway was gone, without a word."""
    data = encode_state(replay(simple_log(1))).replace(b"\nturns: 1", b"\nturns: " + deep)

    with pytest.raises(BadSnapshotError, match=r"line \d+: "):
        decode_state(data + b"# by hand\n")


@table("number", ["1" + "0" * 30, str(2**64), "-1" + "0" * 30, "9" * 400])
@table("text", ["fine", "\ud800"])
def test_a_number_of_more_than_64_bits_is_refused(number: str, text: str) -> None:
    """Where the slow way read it, it was written again, and then nobody could read it."""
    data = encode_state(replay(simple_log(1))).replace(
        b"logged_messages: 2", b"logged_messages: %b"
    )
    slow = data.replace(b'instructions: ""', b"instructions: " + json.dumps(text).encode())

    for by_hand in (b"", b"# by hand\n"):
        assert decode_state(slow.replace(b"%b", b"7") + by_hand).logged_messages == 7
        with pytest.raises(BadSnapshotError, match=r"line \d+: "):
            decode_state(slow.replace(b"%b", number.encode()) + by_hand)
    assert load_json(f'["\\ud800",{2**64 - 1},{-(2**63)}]'.encode()) == [
        "\ud800",
        2**64 - 1,
        -(2**63),
    ]


@table(
    "at",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-14))),
    ],
)
def test_a_time_that_is_none_in_utc_is_refused(at: datetime) -> None:
    """It could be read, and not be written again."""
    body = b'{"v":2,"seq":1,"at":"%b","type":"session_ended","reason":"reset"' % (
        at.isoformat().encode()
    )
    line = body + b',"crc":"%08x"}' % zlib.crc32(body, START)

    with pytest.raises(UnknownFormatError, match="no time in UTC"):
        decode(line, START)


def test_what_follows_an_event_at_the_end_of_time_is_at_the_end_of_time() -> None:
    """A date that cannot be added to made a whole log unreadable."""
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    events = simple_log(1)
    state = apply(
        replay(events),
        Event(seq=len(events) + 1, at=end, body=AmbientStored(text="x", max_age_s=10**12)),
    )

    assert state.ambient[0].until >= end
    assert decode_state(encode_state(state)) == state


def test_an_event_that_cannot_stand_where_it_stands_tells_the_way_out() -> None:
    """Each line of the log is whole, so that no reader of lines sees anything wrong with it."""
    log = simple_log(1)
    events = (log[0], structs.replace(log[2], seq=2))

    with pytest.raises(CorruptJournalError, match=rf"{SESSION_ID}: event 2 .*doctor --repair"):
        recover(None, events)


# --- settings --------------------------------------------------------------------------------


def test_a_folder_that_no_system_can_hold_is_a_fault_of_the_file(tmp_path: Path) -> None:
    """A NUL in `skills_dir` was an error without a place."""
    skills, faults = load_skills(tmp_path / "\0" / "skills")

    assert skills == ()
    (fault,) = faults
    assert re.fullmatch("cannot be read: .*embedded null.*", fault.message)


async def test_a_session_may_live_for_ever() -> None:
    """So many hours are more than a duration can hold, and each message failed."""
    spec = structs.replace(make_spec(), session=SessionSpec(ttl_hours=1e12))
    async with open_test_service(spec=spec) as test:
        key = ConversationKey(channel="test", chat="c", agent="test")
        results = [
            await (await test.service.submit(IncomingMessage(text="hi", key=key))).result()
            for _ in range(2)
        ]

    assert [result.outcome for result in results] == ["answered", "answered"]
    assert results[0].session_id == results[1].session_id


def test_a_backlog_is_no_older_than_a_year(tmp_path: Path) -> None:
    """No date lies so far back as some numbers say: the channel never came up."""
    file = tmp_path / "everturn.yaml"
    file.write_text("channels: {discord: {bot_token: a, backlog: {max_age_hours: 1e300}}}")

    with pytest.raises(ConfigError, match="max_age_hours"):
        load_config(file, environ={})


def test_a_workspace_that_no_disk_can_hold_is_a_fault_of_the_file(tmp_path: Path) -> None:
    """It ended in a traceback."""
    file = tmp_path / "everturn.yaml"
    file.write_text(f"workspace: {'w' * 300}")

    with pytest.raises(ConfigError, match="cannot be looked into"):
        load_config(file, environ={})


@table("text", ["2026-13-45", "0x_", "!!bool maybe", "!!timestamp x", "[" * 150, "=", "5"])
def test_a_hook_s_value_that_looks_like_another_is_a_text(text: str) -> None:
    """Every call with that argument failed after it had run."""
    hook = AfterTool(match="look", message="noted", unless={"n": text})
    call = ToolCall(call_id="a", name="look", arguments='{"n": 7}')

    assert notes((hook,), call) == ("noted",)


def test_a_policy_that_is_read_but_cannot_be_added_to_stays(tmp_path: Path) -> None:
    """The two parsers of YAML do not agree on tabs; an answer of "always" ended in a traceback."""
    file = tmp_path / "policy.local.yaml"
    file.write_text("a\tb: x\n")
    try:
        add_allowed(file, "bash:ls")
    except PolicyWriteError as error:
        assert "by hand" in str(error)  # noqa: PT017 - or it is added, which is as good
    assert file.read_text().startswith("a\tb: x\n")


@table("reference", ["&#x7f;", "&#x90;", "&#12;", "&#x1b;", "&#0157;"])
def test_no_reference_on_a_page_stands_for_a_control_character(reference: str) -> None:
    """They were taken out before HTML was read, and what is written as a number came back."""
    page = f"<html><title>a{reference}b</title><p title='x'>c{reference}[2Jd</p></html>"
    order = Order(
        kind="html",
        address="https://e.org/",
        charset="",
        encoding="",
        limit_bytes=1_000,
        limit_characters=1_000,
    )
    answer, text = work(order, page.encode())

    assert answer["title"].isprintable()
    assert all(c.isprintable() or c == "\n" for c in text)


# --- models ----------------------------------------------------------------------------------


@table("value", [True, 2.5, -1, "7", None, [1]])
def test_what_is_no_count_of_tokens_counts_nothing(value: object) -> None:
    """`true` was kept as a number, and the log could not be read at the next start."""
    assert count_of(value) == 0
    assert type(count_of(10**30)) is int
    assert count_of(10**30) == COUNT_MAX


@table("depth", [300, 900])
@table("form", ['{"error":{"message":%s}}', "%s", '{"error":%s}'])
def test_a_refusal_of_any_depth_has_words(form: str, depth: int) -> None:
    """The words of a server for its failure became a failure of the gateway."""
    refusal = read_refusal((form % ("[" * depth + "]" * depth)).encode())

    assert refusal.message


def test_what_another_format_packed_is_left_out() -> None:
    """An agent that is moved to the other API of the same address lost its conversations."""
    kept = pack("http://here", "m", [{"type": "thinking", "thinking": "so"}])
    reply = Reply(calls=(ToolCall(call_id="a", name="look"),), opaque=kept)
    request = ModelRequest(model="m", system="", messages=(reply,))
    body: dict[str, Any] = json.loads(
        BodyWriter(origin="http://here").body(request, max_tokens_field="max_tokens")
    )

    assert body["messages"][0]["tool_calls"][0]["id"] == "a"
