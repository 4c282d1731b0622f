"""Only what an owner typed in private is an owner's command, whoever says what, where and how."""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.feeding_adapter import feeding

from everturn_channels.access.owners import Owner
from everturn_channels.adapter import ChatRef, Command, Message, Person
from everturn_channels.inbound.owners.texts import IN_PRIVATE

IDS = ("1", "2", "", "-100", "owner:ada", "ada")
CHANNELS = ("test", "test", "tes", "telegram")  # the adapter is `test`
PLACES = (
    ChatRef(id="1"),
    ChatRef(id="2"),
    ChatRef(id="-100", type="group"),
    ChatRef(id="-7", type="channel"),
)
ANSWER = "test used nothing: True"

_PEOPLE = st.builds(
    Person, id=st.sampled_from(IDS[:2] * 3 + IDS), name=st.sampled_from(IDS), is_bot=st.booleans()
)
_OWNERS = st.lists(
    st.builds(
        Owner,
        name=st.sampled_from(("ada", "bea")),
        accounts=st.frozensets(
            st.tuples(st.sampled_from(CHANNELS), st.sampled_from(IDS[:2])), min_size=1, max_size=3
        ),
    ),
    min_size=1,
    max_size=2,
)
_ADA = Owner(name="ada", accounts=frozenset({("test", "1"), ("telegram", "2")}))


def _by(
    sender_id: str = "1", *, is_bot: bool = False, place: ChatRef = PLACES[0], is_typed: bool = True
) -> example:
    """Return what somebody does where ada is an owner, by default she in private."""
    return example(
        owners=[_ADA],
        sender=Person(id=sender_id, name="ada", is_bot=is_bot),
        chat=place,
        is_addressed=True,
        is_typed=is_typed,
        was_message=False,
    )


@_by()
@_by("2")
@_by(is_bot=True)
@_by(place=PLACES[2])
@_by(is_typed=False)
@examples(15)
@given(
    owners=_OWNERS,
    sender=_PEOPLE,
    chat=st.sampled_from(PLACES),
    is_addressed=st.booleans(),
    is_typed=st.booleans(),
    was_message=st.booleans(),
)
def test_an_owners_command_counts_where_an_owner_typed_it_in_private(
    owners: list[Owner],
    sender: Person,
    chat: ChatRef,
    *,
    is_addressed: bool,
    is_typed: bool,
    was_message: bool,
) -> None:
    """Passed on, changed, in a group, by a bot, by another channel's owner: it does nothing."""
    is_owner = (
        bool(sender.id)
        and not sender.is_bot
        and any(("test", sender.id) in owner.accounts for owner in owners)
    )

    async def told() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            async with feeding(Path(folder), owners=owners) as fed:
                at = fed.clock.now()
                message = Message(id="1", chat=chat, sender=sender, text="/usage", at=at)
                await fed.adapter.feed(
                    Command(
                        id="1",
                        name="usage",
                        argument="",
                        chat=chat,
                        sender=sender,
                        at=at,
                        is_addressed=is_addressed,
                        is_typed=is_typed,
                        otherwise=message if was_message else None,
                        answer=fed._answer,
                    )
                )
                return fed.answers

    answers = anyio.run(told)
    counts = is_owner and is_typed and chat.type == "dm"
    assert (answers == [ANSWER]) == counts
    assert ANSWER not in answers or counts
    if IN_PRIVATE in answers:
        assert is_owner
        assert chat.type != "dm"
