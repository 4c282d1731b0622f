"""Which images of a conversation a request shows."""

from __future__ import annotations

from msgspec import structs

from everturn_actors.context.estimation.estimates import MEDIA_UNITS, Estimates
from everturn_actors.context.estimation.pictures import SHOWN_BYTES, SHOWN_MAX, choose
from everturn_actors.context.projection.projection import Projection, edit, projection_units
from everturn_actors.context.projection.reductions import event_of, stands_for
from everturn_actors.model import (
    Attachment,
    Disposition,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    UserMessage,
)


def message(seq: int, *names: str, size_bytes: int = 10, kind: str = "image/png") -> UserMessage:
    """Return a message with images of these names."""
    attached = (Attachment(name=n, media_type=kind, size_bytes=size_bytes) for n in names)
    return UserMessage(text="look", seq=seq, attachments=tuple(attached))


def numbered(count: int, *, size_bytes: int = 10) -> list[UserMessage]:
    """Return so many messages with one image each."""
    return [message(n, f"{n}.png", size_bytes=size_bytes) for n in range(1, count + 1)]


def test_all_images_are_shown_as_long_as_they_are_few_and_other_files_are_not() -> None:
    """An image of an earlier turn is still there to be asked about."""
    found = choose([message(1, "a", "b"), message(5, "c")], room_tokens=None)

    assert [*found.shown] == ["a", "b", "c"]
    assert found.counts == {1: 2, 5: 1}
    assert found.units == 3 * MEDIA_UNITS

    # No model is sent the bytes of what it does not take.
    found = choose([message(1, "a.svg", kind="image/svg+xml")], room_tokens=None)

    assert not found.shown
    assert not found.counts
    assert found.units == 0


def test_the_oldest_images_leave_in_jumps() -> None:
    """Between two jumps a request begins as the one before it, so that caches hold."""
    shown = [[*choose(numbered(n), room_tokens=None).shown] for n in range(1, 60)]
    first = [int(names[0].removesuffix(".png")) for names in shown]

    assert all(names[-1] == f"{n}.png" for n, names in enumerate(shown, 1))
    assert max(map(len, shown)) == SHOWN_MAX
    assert len(set(first)) == 5  # of 59 requests, four began otherwise than the one before


def test_images_take_at_most_half_of_the_room_and_are_bounded_in_bytes() -> None:
    """A small window must not be filled by pictures, so that the words find no place."""
    sizes = [
        len(choose(numbered(9), room_tokens=room).shown) for room in (-5, 0, 3000, 3200, 10_000)
    ]

    assert sizes == [0, 0, 0, 1, 3]
    assert len(choose(numbered(9), room_tokens=10_000, scale=2.0).shown) == 1

    # Providers refuse bodies that are too large; the newest image is the one that is meant.
    third = SHOWN_BYTES // 3

    assert [*choose(numbered(5, size_bytes=third), room_tokens=None).shown] == [
        "3.png",
        "4.png",
        "5.png",
    ]
    assert [*choose(numbered(2, size_bytes=SHOWN_BYTES), room_tokens=None).shown] == ["2.png"]


def test_an_image_that_comes_again_is_shown_in_both_places() -> None:
    """Its bytes are there for the new message, and a provider shows them in the old one too."""
    messages = [message(1, "same"), *numbered(30), message(99, "same")]
    found = choose(messages, room_tokens=None)

    assert found.counts[1] == found.counts[99] == 1


def looked(seq: int, name: str) -> Step:
    """Return a step whose call gave an image."""
    attached = Attachment(name=name, media_type="image/png", size_bytes=10)
    result = ToolResult(
        seq=seq + 1, call_id="c", name="view_image", text="a chart", attachments=(attached,)
    )
    return Step(reply=Reply(seq=seq, calls=(ToolCall(call_id="c", name="v"),)), results=(result,))


def test_an_image_of_a_result_costs_what_any_other_does() -> None:
    """A budget that forgot them would send requests that no model takes."""
    step = looked(2, "a.png")
    found = choose([message(1, "b.png"), *step.results], room_tokens=None)

    assert [*found.shown] == ["b.png", "a.png"]
    assert found.counts == {1: 1, 3: 1}


def test_an_image_leaves_with_its_result_and_stays_with_a_shortened_one() -> None:
    """A result that is cleared to make room must give back what its image took, for good."""
    step = looked(2, "a.png")
    before = Projection(blocks=(step,), current=1, media={3: 1})
    dispositions: tuple[Disposition, ...] = ("cleared", "masked", "shortened")
    for disposition in dispositions:
        changed = structs.replace(step.results[0], text="[gone]")
        made, done = edit(
            before, {(0, 1): changed}, disposition=disposition, stage="s", estimator=Estimates()
        )
        event = event_of(before, made, done, ())
        assert event is not None
        [after] = [stands_for(step.results[0], each) for each in event.replaced]
        assert isinstance(after, ToolResult)

        assert (after,) == made.messages[1:]
        is_gone = disposition != "shortened"
        assert (after.attachments == ()) == is_gone
        assert (projection_units(made) < MEDIA_UNITS) == is_gone
