"""Access rules hold for any rules, sender and chat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from everturn_channels.access.rules import AccessDecision, evaluate
from everturn_channels.adapter import ChatRef, Person
from everturn_channels.settings import AccessRules, Disposition, DmRules, GroupRules

_WORDS = st.text("ab1:-*", max_size=4)
_POLICIES = st.sampled_from(["open", "disabled", "allowlist"])
_DISPOSITIONS = st.sampled_from(["allow", "passive", "silent", "block"])
_RULES = st.builds(
    AccessRules,
    dm=st.builds(DmRules, policy=_POLICIES, allowlist=st.lists(_WORDS, max_size=3).map(tuple)),
    groups=st.builds(
        GroupRules,
        policy=_POLICIES,
        allowlist=st.lists(_WORDS, max_size=3).map(tuple),
        sender_default=_DISPOSITIONS,
        sender_overrides=st.lists(st.tuples(_WORDS, _DISPOSITIONS), max_size=4).map(tuple),
        activation=st.sampled_from(["mention", "always"]),
    ),
)
_PLACES = st.builds(ChatRef, id=_WORDS, type=st.sampled_from(["dm", "group", "channel"]))
_PEOPLE = st.builds(Person, id=_WORDS, is_bot=st.booleans())


def _evaluate(
    rules: AccessRules, chat: ChatRef, sender: Person, *, addressed: bool, paired: bool
) -> AccessDecision:
    return evaluate(
        rules,
        places=("a", "b"),
        chat=chat,
        sender=sender,
        is_addressed=addressed,
        let_in="person" if paired else None,
    )


@given(rules=_RULES, chat=_PLACES, sender=_PEOPLE, addressed=st.booleans(), paired=st.booleans())
def test_nobody_is_answered_whom_no_rule_admits(
    rules: AccessRules, chat: ChatRef, sender: Person, *, addressed: bool, paired: bool
) -> None:
    """However the rules are mixed, who is shut out stays out."""
    decision = _evaluate(rules, chat, sender, addressed=addressed, paired=paired)

    assert decision.reason
    if chat.type == "dm":
        closed = rules.dm.policy == "disabled" or (
            rules.dm.policy == "allowlist" and not any(rules.dm.allowlist) and not paired
        )
        assert not (closed and decision.action not in {"refuse", "pair"})
        assert decision.action in {"answer", "refuse", "pair"}
    else:
        listed = any(rules.groups.allowlist)
        policy = rules.groups.policy
        closed = policy == "disabled" or (
            not listed and (policy == "allowlist" or chat.type == "channel")
        )
        assert not (closed and decision.action != "refuse")
        assert decision.action != "pair"


@given(rules=_RULES, chat=_PLACES, sender=_PEOPLE, paired=st.booleans())
def test_addressing_the_agent_opens_no_door(
    rules: AccessRules, chat: ChatRef, sender: Person, *, paired: bool
) -> None:
    """A mention turns what is ambient into a question, and changes nothing else."""
    plain = _evaluate(rules, chat, sender, addressed=False, paired=paired)
    addressed = _evaluate(rules, chat, sender, addressed=True, paired=paired)

    assert addressed == plain or (plain.action, addressed.action) == ("ambient", "answer")


@given(_RULES, _PLACES, _PEOPLE, _DISPOSITIONS)
def test_an_exact_entry_for_a_sender_decides(
    rules: AccessRules, chat: ChatRef, sender: Person, disposition: Disposition
) -> None:
    """No other entry, before it or after it, can take away what is said of one person."""
    overrides = tuple(each for each in rules.groups.sender_overrides if each[0] != sender.id)
    exact = (sender.id, disposition)
    before = replace(rules.groups, sender_overrides=(exact, *overrides))
    after = replace(rules.groups, sender_overrides=(*overrides, exact))
    alone = replace(rules.groups, sender_overrides=(exact,))

    decisions = [
        _evaluate(replace(rules, groups=groups), chat, sender, addressed=True, paired=False)
        for groups in (before, after, alone)
    ]

    assert decisions[0] == decisions[1] == decisions[2]


@given(_RULES, _PLACES, _PEOPLE)
def test_a_longer_list_admits_no_fewer(rules: AccessRules, chat: ChatRef, sender: Person) -> None:
    """Adding an entry never locks somebody out."""
    longer = replace(rules, dm=replace(rules.dm, allowlist=(*rules.dm.allowlist, "zz")))

    old = _evaluate(rules, chat, sender, addressed=True, paired=False)
    new = _evaluate(longer, chat, sender, addressed=True, paired=False)

    assert new.action == old.action
