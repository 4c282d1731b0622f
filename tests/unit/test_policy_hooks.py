"""Hooks: what must come before a call, what is not done twice, and notes that steer."""

from __future__ import annotations

from support.policies import call, conversation, result, step
from support.tables import table

from everturn_actors.model import OpenStep, Reply, ToolCall
from everturn_gateway.tools.policy import AfterTool, DependsOn, SkipDuplicate
from everturn_gateway.tools.policy.hooks import notes, refusal

SEND = call("background_process", "now", action="send_keys", handle="p1", keys="ls")
LOOK_FIRST = DependsOn(
    match="background_process:send_keys", prior="background_process:capture", match_arg="handle"
)


def _capture(handle: str = "p1", call_id: str = "c1") -> ToolCall:
    return call("background_process", call_id, action="capture", handle=handle)


def test_a_call_without_the_one_before_it_is_refused_with_what_to_do() -> None:
    """Keys typed blindly into a terminal do harm."""
    reason = refusal((LOOK_FIRST,), SEND, conversation())

    assert reason == (
        "background_process needs a call of background_process:capture with the same handle"
        ' ("p1") before it; make that call first'
    )

    # A conversation goes on, and so does the screen that was looked at.
    in_turn = conversation(step(_capture()))
    before = conversation(before=[step(_capture())])
    beside = conversation(
        now=OpenStep(reply=Reply(calls=(_capture(), SEND)), results={"c1": result(_capture())})
    )

    assert [refusal((LOOK_FIRST,), SEND, each) for each in (in_turn, before, beside)] == [""] * 3

    # To have asked for a look is not to have seen.
    failed = conversation(step(_capture(), failed=[_capture()]))
    other = conversation(step(_capture("p2")))
    pending = conversation(now=OpenStep(reply=Reply(calls=(_capture(), SEND))))
    denied = conversation(
        now=OpenStep(
            reply=Reply(calls=(_capture(), SEND)), results={"c1": result(_capture(), is_error=True)}
        )
    )

    assert all(refusal((LOOK_FIRST,), SEND, each) for each in (failed, other, pending, denied))

    # match_arg is optional.
    guard = DependsOn(match="deploy", prior="run_*")

    assert refusal((guard,), call("deploy"), conversation())
    assert not refusal((guard,), call("deploy"), conversation(step(call("run_tests", "c1"))))


@table(
    ("match", "is_guarded"),
    [
        ("background_process:send_keys", True),
        ("background_process:*", True),
        ("background_process", True),
        ("*", True),
        ("background_process:capture", False),
        ("bash", False),
    ],
)
def test_a_guard_names_a_tool_or_one_of_its_actions(match: str, *, is_guarded: bool) -> None:
    """One tool with many actions should not be guarded as a whole."""
    guard = DependsOn(match=match, prior="never")

    assert bool(refusal((guard,), SEND, conversation())) == is_guarded


def test_a_call_is_not_made_twice_in_a_turn() -> None:
    """Small models ask the same again and again."""
    guard = SkipDuplicate(match="recall")
    again = call("recall", "c2", days=7)
    first = call("recall", "c1", days=7)

    assert "made in this turn already; use its result" in refusal(
        (guard,), again, conversation(step(first))
    )
    assert not refusal((guard,), again, conversation(before=[step(first)]))
    assert not refusal((guard,), again, conversation(step(first, failed=[first])))
    assert not refusal((guard,), again, conversation(step(call("recall", "c1", days=8))))
    assert not refusal((guard,), again, conversation(step(call("other", "c1", days=7))))

    # They may run side by side, and may be judged again after an answer or a restart.
    guard = SkipDuplicate(match="*")
    one, two = call("recall", "c1", days=7), call("recall", "c2", days=7)
    now = conversation(now=OpenStep(reply=Reply(calls=(one, two))))
    done = conversation(now=OpenStep(reply=Reply(calls=(one, two)), results={"c1": result(one)}))
    failed = conversation(
        now=OpenStep(reply=Reply(calls=(one, two)), results={"c1": result(one, is_error=True)})
    )

    assert [bool(refusal((guard,), each, now)) for each in (one, two)] == [False, True]
    assert [bool(refusal((guard,), each, done)) for each in (one, two)] == [False, True]
    assert not refusal((guard,), two, failed)

    # `status` of a process is not its `log`.
    guard = SkipDuplicate(match="background_process", match_args=("handle",))
    earlier = conversation(step(call("background_process", "c1", action="log", handle="p1")))

    assert not refusal(
        (guard,), call("background_process", "c2", action="status", handle="p1"), earlier
    )

    # Duragent's agents guard `memory:recall`; here the tool is called recall.
    guard = SkipDuplicate(match="memory:recall", match_args=("days",))
    earlier = conversation(step(call("recall", "c1", days=7)))

    assert refusal((guard,), call("recall", "c2", days=7), earlier)
    assert not refusal((guard,), call("recall", "c2", days=30), earlier)


def test_notes_go_with_what_they_match() -> None:
    """An owner steers a model right where it matters."""
    hooks = (
        AfterTool(match="background_process:capture", message="A"),
        AfterTool(match="background_process:*", message="B"),
        AfterTool(match="bash", message="C"),
    )

    assert notes(hooks, _capture()) == ("A", "B")

    # `unless: {wait: true}` speaks of calls that say so.
    hook = AfterTool(match="spawn", message="watch it", unless={"wait": "null"})

    assert notes((hook,), call("spawn")) == ("watch it",)


@table(
    ("wait", "said", "is_quiet"),
    [
        (True, True, True),
        (True, "true", True),
        (True, "yes", True),
        (False, "true", False),
        ("true", "true", True),
        (1, "true", False),
        (3, "3", True),
        (3, "4", False),
        (None, "null", True),
        (1.5, "1.5", True),
        (["a", 1], ["a", "1"], True),
        ({"a": True}, {"a": "true"}, True),
        ({"a": True}, {"b": "true"}, False),
        ("x", "[", False),
        (1, "[", False),
    ],
)
def test_no_note_where_an_argument_has_a_value(
    wait: object, said: object, *, is_quiet: bool
) -> None:
    """Values in a file are texts, those of a call are JSON."""
    hook = AfterTool(match="spawn", message="watch it", unless={"wait": said})

    assert (notes((hook,), call("spawn", wait=wait)) == ()) == is_quiet


def test_arguments_that_cannot_be_read_hurt_nobody() -> None:
    """What a model writes is not always JSON."""
    broken = ToolCall(call_id="c", name="spawn", arguments="[1")
    guards = (SkipDuplicate(match="*", match_args=("a",)), DependsOn(match="*", prior="x"))

    assert notes((AfterTool(match="*", message="m"),), broken) == ("m",)
    assert "needs a call of x" in refusal(guards, broken, conversation())
