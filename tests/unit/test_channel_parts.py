"""The small parts of a channel: how often, which file, which words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
from msgspec import structs
from support.inbound_events import DM, GROUP
from support.tables import table

from everturn_actors.context.report import ContextReport, Region, SummaryReport
from everturn_actors.model import (
    Approval,
    ConversationKey,
    OpenStep,
    OpenTurn,
    Upload,
    Usage,
    UserMessage,
)
from everturn_actors.service import Compacted
from everturn_actors.state.session_state import SessionState
from everturn_channels.adapter import IncomingFile
from everturn_channels.chats.chat_types import ChatTypes
from everturn_channels.inbound.file_fetch import clean_name, fetch_files, saved_name, shown_name
from everturn_channels.inbound.reports import compacted_text, context_text, status_text
from everturn_channels.inbound.submission_rules import message_key, queueing
from everturn_channels.rate_limits import Cooldown, RecentKeys, TokenBuckets
from everturn_channels.settings import QueueRules

NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEY = ConversationKey(channel="test", chat="7", agent="test")


def _later(delay_s: float) -> datetime:
    return NOW + timedelta(seconds=delay_s)


# --- how often ---


def test_seldom_lets_one_through_for_each_key_and_period() -> None:
    """Whatever clocks do, and however many strangers there are."""
    # A line that comes with every message would bury the log, or annoy people.
    cooldown: Cooldown[str] = Cooldown(60)

    assert [cooldown.may(key, _later(at)) for key, at in (("a", 0), ("b", 0), ("a", 59))] == [
        True,
        True,
        False,
    ]
    assert cooldown.may("a", _later(60))
    assert not cooldown.may("a", _later(61))

    # Seldom speaks again when the clock was set back. Otherwise a clock that was a year ahead once
    # would silence it for a year.
    cooldown = Cooldown(60)
    cooldown.may("a", _later(1_000_000))

    assert cooldown.may("a", NOW)

    # Seldom remembers so many keys and no more. Memory must not grow with the number of strangers.
    few: Cooldown[int] = Cooldown(60, keys=2)
    for key in (1, 2, 3):
        few.may(key, NOW)

    assert [few.may(key, NOW) for key in (3, 1)] == [False, True]


def test_a_bucket_gives_a_burst_and_then_a_steady_rate() -> None:
    """By the times of messages, in whatever order they come."""
    # People write in bursts; nobody writes thirty messages a minute for long.
    buckets: TokenBuckets[str] = TokenBuckets(3, 60)

    assert [buckets.take("a", NOW) for _ in range(4)] == [True, True, True, False]
    assert [buckets.take("a", _later(20)) for _ in range(2)] == [True, False]
    assert [buckets.take("a", _later(2000)) for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b", NOW)

    # A bucket is not filled by time that runs backwards and on again. The instants are those of
    # messages, and platforms do not send them strictly in order.
    buckets = TokenBuckets(1, 60)

    assert buckets.take("a", _later(60))
    assert not buckets.take("a", NOW)
    assert not buckets.take("a", _later(60))


def test_what_is_kept_of_keys_and_places_is_bounded() -> None:
    """Memory must not grow with what strangers send."""
    # Lately forgets the oldest. It is the first of two hurdles for repeats; the journal is the
    # other, and has them all.
    recent: RecentKeys[int] = RecentKeys(2)
    for key in (1, 2, 3):
        recent.note(key)

    assert [key in recent for key in (1, 2, 3)] == [False, True, True]

    # Places are remembered up to a limit and groups otherwise. What is shown in a group can be
    # shown in a dm, but not the other way round.
    chat_types = ChatTypes(1)
    chat_types.note(DM)
    as_seen = chat_types.type_of(KEY)
    chat_types.note(GROUP)

    assert (as_seen, chat_types.type_of(KEY)) == ("dm", "group")


# --- how messages wait ---


@table(
    ("rules", "is_album", "took_s", "debounce_s"),
    [
        (QueueRules(), False, 3.0, 1.5),
        (QueueRules(), True, 0.0, 1.5),
        (QueueRules(debounce_s=0), True, 0.0, 1.0),
        (QueueRules(debounce_s=0), True, 2.0, 3.0),
        (QueueRules(debounce_s=0), False, 2.0, 0.0),
    ],
)
def test_an_album_is_held_as_long_as_its_next_part_may_take(
    rules: QueueRules, *, is_album: bool, took_s: float, debounce_s: float
) -> None:
    """Its parts come one after the other, each when the one before was fetched and taken."""
    assert queueing(rules, is_album=is_album, took_s=took_s).debounce_s == debounce_s


def test_a_message_waits_as_its_agent_says_and_is_known_by_its_key() -> None:
    """Whatever ids a platform has."""
    # Queue modes become what the core knows. The three words of the agent format have one meaning
    # each.
    modes = [
        queueing(QueueRules(mode=mode), is_album=False, took_s=0)
        for mode in ("batch", "sequential", "drop")
    ]

    assert [(each.joins, each.drops_when_busy) for each in modes] == [
        ("all", False),
        ("own", False),
        ("all", True),
    ]

    # The key of a message fits however long its ids are. A plug-in may have ids of any length, and
    # two of them must not become one.
    keys = {message_key(structs.replace(KEY, chat="c" * 400), f"{number}") for number in range(3)}

    assert message_key(KEY, "12") == "test:7:12"
    assert len(keys) == 3
    assert all(len(key) <= 255 for key in keys)


# --- files ---


@table(
    ("name", "clean"),
    [
        ("cat.png", "cat.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a b.txt", "a b.txt"),
        ("..", ""),
        ("cod\u202egpj.exe\n", "codgpj.exe"),
        ("x" * 400 + ".tar", "x" * 235 + ".tar"),
        ("x" * 400, "x" * 255),
    ],
)
def test_file_names_are_made_fit_to_be_kept(name: str, clean: str) -> None:
    """A sender chooses the name, and it must not lead anywhere or be shown as another."""
    assert clean_name(name) == clean


async def test_a_file_has_so_long_as_others_can_wait_for_it() -> None:
    """What is written behind it waits; 20 MB come within that over a line of 8 Mbit/s."""
    given_s: list[float] = []

    async def fetch(limit_bytes: int) -> bytes:
        given_s.append(anyio.current_effective_deadline() - anyio.current_time())
        return b"x"[:limit_bytes]

    await fetch_files([IncomingFile(fetch=fetch)], limit_bytes=1)

    assert [round(each) for each in given_s] == [20]


async def test_every_file_has_a_name() -> None:
    """One that can be talked about, and that is the same for the same file."""
    # A file without a name is called by its place. Notifier messages have none, and `` cannot be
    # talked about.
    assert shown_name("", 2) == "file 2"
    assert len(shown_name("x" * 200, 1)) == 80

    # Saved files have the same name for the same bytes. A message that comes again after a crash
    # must not leave a second copy.
    one = await saved_name(Upload(data=b"a", file_name="my plan?.pdf"))
    again = await saved_name(Upload(data=b"a", file_name="my plan?.pdf"))
    other = await saved_name(Upload(data=b"b", media_type="application/pdf"))

    assert one == again == "ca978112ca1b-my_plan_.pdf"
    assert other == "3e23e8160039.pdf"


# --- words ---


def _state() -> SessionState:
    return SessionState(session_id="s1", key=KEY, created_at=NOW, updated_at=NOW, last_seq=1)


def test_status_and_compacted_tell_how_things_stand() -> None:
    """Whoever asks gets an answer that they can act upon."""
    # Status tells what waits and what runs. It is how people find out why there is no answer yet.
    approval = Approval(call_id="c", arguments_hash="h", expires_at=NOW)
    turn = OpenTurn(
        number=3,
        users=(),
        started_at=NOW,
        step=OpenStep(approvals={"c": approval}),
    )
    users = (UserMessage(text="a"), UserMessage(text="b"))
    state = structs.replace(_state(), turns=3, open_turn=turn, waiting=users)

    assert status_text(state).splitlines() == [
        "**Session** `s1`",
        "- Turns: 3, turn 3 is running, step 1",
        "- Waiting: 2 messages",
        "- Approvals: 1 question waits for an answer",
        "- Tokens: none reported yet",
    ]

    # Compacted tells what was done or why nothing was. Both are answers to the same wish.
    why = "No model could write the summary: Why so."
    done = Compacted(done=True, messages=1, tokens_before=2000, tokens_after=300, text=why)

    assert compacted_text(done) == (
        f"The oldest message is summarised by a model: 2,000 tokens before, 300 after.\n{why}"
    )
    assert compacted_text(Compacted(done=False, text="Too short.")) == "Too short."


def test_context_tells_regions_summary_and_what_comes_next() -> None:
    """Nothing is hidden silently: a person can ask in the chat itself."""
    report = ContextReport(
        policy="everturn",
        model="m",
        window_tokens=1000,
        used_tokens=720,
        percent=72,
        level="yellow",
        regions=(Region(name="system", tokens=20), Region(name="free", tokens=280)),
        shown_messages=4,
        hidden_messages=3,
        by_disposition={"kept": 4, "summarised": 2, "dropped": 1},
        summary=SummaryReport(messages=2, last_turn=1, source="digest"),
        predicted_tokens=700,
        reported=Usage(),
        scale=1,
        reports=0,
        prefix="",
        cache_misses=0,
        failures=0,
        retry_at=None,
        budget="",
        next=("Older turns are summarised at 850 tokens.",),
    )

    assert context_text(report).splitlines() == [
        "**Context**: 720 of 1,000 tokens, 72 %, yellow",
        "Policy `everturn`, model `m`",
        "```",
        "system          20    2 %",
        "free           280   28 %",
        "```",
        "Messages: 4 shown, 3 hidden (2 summarised, 1 dropped)",
        "Summary: 2 messages up to turn 1, by how each of them began",
        "Next: Older turns are summarised at 850 tokens.",
    ]
    unknown = structs.replace(report, window_tokens=0, level="green")
    assert context_text(unknown).startswith("**Context**: 720 tokens, the window is not known\n")
