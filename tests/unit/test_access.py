"""Routes and access rules: which agent answers where, and what becomes of a message."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace
from support.inbound_events import ANN, DM, GROUP
from support.tables import table

from everturn_channels.access.rules import AccessDecision, Action, evaluate, find_route
from everturn_channels.adapter import ChatRef, Person
from everturn_channels.settings import (
    AccessPolicy,
    AccessRules,
    BufferRules,
    Disposition,
    DmRules,
    GroupRules,
    QueueRules,
    Route,
)

BOT = Person(id="bot9", name="Other", is_bot=True)
NOBODY = Person(id="")
POSTS = ChatRef(id="-100", type="channel")
OPEN_GROUPS = GroupRules(policy="open")


def _evaluate(
    rules: AccessRules,
    chat: ChatRef = DM,
    sender: Person = ANN,
    *,
    addressed: bool = False,
    paired: bool = False,
) -> AccessDecision:
    return evaluate(
        rules,
        places=("telegram-family", "telegram"),
        chat=chat,
        sender=sender,
        is_addressed=addressed,
        let_in="person" if paired else None,
    )


def _dm(
    dm: DmRules, sender: Person = ANN, *, addressed: bool = False, paired: bool = False
) -> AccessDecision:
    return _evaluate(AccessRules(dm=dm), DM, sender, addressed=addressed, paired=paired)


def _group(
    groups: GroupRules, sender: Person = ANN, chat: ChatRef = GROUP, *, addressed: bool = False
) -> AccessDecision:
    return _evaluate(AccessRules(groups=groups), chat, sender, addressed=addressed)


# --- routes ---


@table(
    ("route", "matches"),
    [
        (Route(agent="x"), True),
        (Route(agent="x", channel="telegram-family"), True),
        (Route(agent="x", channel="telegram"), True),
        (Route(agent="x", channel="telegram-work"), False),
        (Route(agent="x", channel="tele"), False),
        (Route(agent="x", chat_type="group"), True),
        (Route(agent="x", chat_type="dm"), False),
        (Route(agent="x", chat_type="channel"), False),
        (Route(agent="x", chat_id="-100"), True),
        (Route(agent="x", chat_id="-10"), False),
        (Route(agent="x", topic="9"), False),
        (Route(agent="x", sender_id="7"), True),
        (Route(agent="x", sender_id="8"), False),
        (Route(agent="x", channel="telegram", chat_id="-100", sender_id="8"), False),
        (Route(agent="x", channel="discord", chat_id="-100", sender_id="7"), False),
    ],
)
def test_a_route_matches_where_all_it_names_is_so(route: Route, *, matches: bool) -> None:
    """A route that matched on less would hand a private chat to the wrong agent."""
    found = find_route(
        [route], channel="telegram-family", platform="telegram", chat=GROUP, sender=ANN
    )

    assert found == (route if matches else None)


def test_the_first_route_that_matches_wins() -> None:
    """What is told by topic, or by exception, comes before the rest."""
    # Owners put exceptions before the rule.
    routes = [
        Route(agent="never", chat_id="other"),
        Route(agent="first", chat_type="group"),
        Route(agent="rest"),
    ]

    found = find_route(routes, channel="telegram", platform="telegram", chat=GROUP, sender=ANN)

    assert found is routes[1]

    # Each topic may have an agent of its own. The rest of the chat goes by the routes behind.
    routes = [Route(agent="docs", chat_id="-100", topic="9"), Route(agent="rest")]
    of_topics = [
        find_route(
            routes,
            channel="telegram",
            platform="telegram",
            chat=ChatRef(id=GROUP.id, type="group", topic=topic),
            sender=ANN,
        )
        for topic in ("9", "10", "")
    ]

    assert [route.agent if route else "" for route in of_topics] == ["docs", "rest", "rest"]


# --- dm ---


@table(
    ("dm", "sender", "paired", "action"),
    [
        (DmRules(), ANN, False, "pair"),
        (DmRules(allowlist=("",)), ANN, False, "pair"),
        (DmRules(allowlist=("7",)), ANN, False, "answer"),
        (DmRules(allowlist=("77", "8")), ANN, False, "pair"),
        (DmRules(allowlist=("*",)), ANN, False, "answer"),
        (DmRules(allowlist=("*7",)), ANN, False, "pair"),
        (DmRules(allowlist=("ab*",)), Person(id="abc"), False, "answer"),
        (DmRules(allowlist=("ab*",)), Person(id="ab"), False, "answer"),
        (DmRules(allowlist=("ab*",)), Person(id="a"), False, "pair"),
        (DmRules(allowlist=("Ann",)), ANN, False, "pair"),
        (DmRules(), ANN, True, "answer"),
        (DmRules(policy="disabled"), ANN, True, "refuse"),
        (DmRules(policy="disabled", allowlist=("7",)), ANN, False, "refuse"),
        (DmRules(policy="open"), ANN, False, "answer"),
        (DmRules(), NOBODY, False, "refuse"),
        (DmRules(allowlist=("",)), NOBODY, False, "refuse"),
        (DmRules(), BOT, False, "refuse"),
        (DmRules(policy="open"), BOT, False, "refuse"),
        (DmRules(policy="open", allowlist=("bot9",)), BOT, False, "answer"),
    ],
)
def test_who_is_answered_in_a_dm(
    dm: DmRules, sender: Person, *, paired: bool, action: Action
) -> None:
    """Closed by default: only who is listed, paired, or expressly everybody."""
    assert _dm(dm, sender, paired=paired).action == action


def test_a_dm_is_a_place_of_its_own() -> None:
    """What holds there holds nowhere else."""
    # In a dm nobody has to mention the bot. There is nobody else to speak to.
    assert _dm(DmRules(policy="open"), addressed=False).action == "answer"

    # Pairing counts in a dm alone. Who was let in alone does not bring their groups with them.
    assert _evaluate(AccessRules(), GROUP, addressed=True, paired=True).action == "refuse"


# --- groups ---


@table(
    ("policy", "allowlist", "chat", "action"),
    [
        ("allowlist", (), GROUP, "refuse"),
        ("allowlist", ("telegram:-100",), GROUP, "answer"),
        ("allowlist", ("telegram-family:-100",), GROUP, "answer"),
        ("allowlist", ("telegram-work:-100", "discord:-100"), GROUP, "refuse"),
        ("allowlist", ("-100",), GROUP, "refuse"),
        ("allowlist", ("telegram:-10",), GROUP, "refuse"),
        ("allowlist", ("telegram:-10*",), GROUP, "answer"),
        ("allowlist", ("telegram:*",), GROUP, "answer"),
        ("allowlist", ("discord:*",), GROUP, "refuse"),
        ("allowlist", ("*",), GROUP, "answer"),
        ("disabled", ("telegram:-100",), GROUP, "refuse"),
        ("open", (), GROUP, "answer"),
        ("open", (), POSTS, "refuse"),
        ("open", ("telegram:-100",), POSTS, "answer"),
        ("allowlist", (), POSTS, "refuse"),
        ("allowlist", ("telegram:-100",), POSTS, "answer"),
    ],
)
def test_in_which_groups_the_agent_takes_part(
    policy: AccessPolicy, allowlist: tuple[str, ...], chat: ChatRef, action: Action
) -> None:
    """Anybody can add a bot to a group: only those that the owner listed may use it."""
    rules = GroupRules(policy=policy, allowlist=allowlist)

    assert _group(rules, chat=chat, addressed=True).action == action


@table(
    ("default", "overrides", "sender", "action"),
    [
        ("allow", (), ANN, "answer"),
        ("passive", (), ANN, "ambient"),
        ("silent", (), ANN, "record"),
        ("block", (), ANN, "ignore"),
        ("block", (("7", "allow"),), ANN, "answer"),
        ("allow", (("8", "block"),), ANN, "answer"),
        ("allow", (("*", "block"),), ANN, "ignore"),
        ("block", (("*", "silent"), ("7", "allow")), ANN, "answer"),
        ("block", (("7", "allow"), ("7*", "silent")), ANN, "answer"),
        ("allow", (("ab*", "silent"), ("abc*", "block")), Person(id="abcd"), "ignore"),
        ("allow", (("abc*", "block"), ("ab*", "silent")), Person(id="abcd"), "ignore"),
        ("allow", (("abc*", "block"), ("ab*", "silent")), Person(id="abx"), "record"),
        ("allow", (("", "block"),), NOBODY, "ignore"),
        ("allow", (("", "block"),), ANN, "answer"),
        ("block", (("*", "allow"),), NOBODY, "answer"),
    ],
)
def test_what_becomes_of_a_members_messages(
    default: Disposition,
    overrides: tuple[tuple[str, Disposition], ...],
    sender: Person,
    action: Action,
) -> None:
    """The entry that says most about a sender decides, wherever it stands."""
    rules = replace(OPEN_GROUPS, sender_default=default, sender_overrides=overrides)

    assert _group(rules, sender, addressed=True).action == action


@table(
    ("activation", "addressed", "action"),
    [
        ("mention", True, "answer"),
        ("mention", False, "ambient"),
        ("always", True, "answer"),
        ("always", False, "answer"),
    ],
)
def test_when_a_group_message_is_for_the_agent(
    activation: Literal["mention", "always"], *, addressed: bool, action: Action
) -> None:
    """A bot that answers everything is thrown out; one that answers nothing is useless."""
    rules = replace(OPEN_GROUPS, activation=activation)

    assert _group(rules, addressed=addressed).action == action


def test_a_passive_member_is_never_answered_and_never_vouched_for() -> None:
    """What they write may be read, and must not be able to steer the agent."""
    rules = replace(OPEN_GROUPS, sender_default="passive", activation="always")

    decision = _group(rules, addressed=True)

    assert (decision.action, decision.untrusted) == ("ambient", True)
    assert not _group(OPEN_GROUPS).untrusted


@table(("mode", "shown"), [("silent", "note"), ("passive", "message")])
def test_the_buffers_mode_says_how_an_ambient_message_is_kept(
    mode: Literal["silent", "passive"], shown: str
) -> None:
    """One mode tells of messages in a block, the other makes them part of the conversation."""
    buffer = BufferRules(mode=mode, max_messages=5)
    rules = replace(OPEN_GROUPS, context_buffer=buffer)

    assert _group(rules).shown == shown
    assert _group(rules).buffer == buffer
    assert _group(rules, addressed=True).shown == "never"


@table(
    ("overrides", "action"),
    [
        ((), "ambient"),
        ((("*", "allow"),), "ambient"),
        ((("bot9", "allow"),), "answer"),
        ((("bot*", "allow"),), "answer"),
        ((("bot9", "block"),), "ignore"),
    ],
)
def test_another_bot_is_answered_only_where_it_is_named(
    overrides: tuple[tuple[str, Disposition], ...], action: Action
) -> None:
    """Two bots that answer each other would go on until the money is gone."""
    rules = replace(OPEN_GROUPS, activation="always", sender_overrides=overrides)

    assert _group(rules, BOT, addressed=True).action == action


def test_each_kind_of_chat_has_its_own_queue() -> None:
    """A busy group needs another queue than a person."""
    dm, groups = QueueRules(mode="sequential"), QueueRules(mode="drop")
    rules = AccessRules(
        dm=DmRules(policy="open", queue=dm), groups=replace(OPEN_GROUPS, queue=groups)
    )

    assert _evaluate(rules, DM).queue == dm
    assert _evaluate(rules, GROUP, addressed=True).queue == groups


def test_an_unknown_chat_type_is_refused() -> None:
    """A plug-in of tomorrow may send any word; what no rule names is closed."""
    rules = AccessRules(dm=DmRules(policy="open"), groups=GroupRules(policy="open"))
    chat = ChatRef(id="1", type="broadcast")  # type: ignore[arg-type]

    decision = _evaluate(rules, chat, addressed=True, paired=True)

    assert decision.action == "refuse"
    assert "'broadcast'" in decision.reason


@table(
    ("decision", "reason"),
    [
        (_dm(DmRules()), "spec.access.dm.allowlist is empty: nobody is admitted"),
        (_dm(DmRules(allowlist=("8",))), "spec.access.dm.allowlist has no entry for '7'"),
        (_dm(DmRules(policy="disabled")), "spec.access.dm.policy is disabled"),
        (_dm(DmRules(policy="open"), BOT), "'bot9' is a bot and not in spec.access.dm.allowlist"),
        (_group(GroupRules()), "spec.access.groups.allowlist is empty: no group is admitted"),
        (
            _group(GroupRules(allowlist=("x:1",))),
            "spec.access.groups.allowlist has no entry for 'telegram-family:-100'",
        ),
        (_group(GroupRules(policy="disabled")), "spec.access.groups.policy is disabled"),
        (_group(OPEN_GROUPS, chat=POSTS), "spec.access.groups.allowlist is empty: no channel"),
        (_group(OPEN_GROUPS), "not addressed, and spec.access.groups.activation is mention"),
        (
            _group(replace(OPEN_GROUPS, sender_default="block")),
            "spec.access.groups.sender_default is block",
        ),
        (
            _group(replace(OPEN_GROUPS, sender_overrides=(("7*", "silent"),))),
            "spec.access.groups.sender_overrides['7*'] is silent",
        ),
    ],
)
def test_a_decision_names_the_setting_that_would_change_it(
    decision: AccessDecision, reason: str
) -> None:
    """SE-02: an owner whose bot stays silent finds the line to change in the log."""
    assert decision.reason.startswith(reason)
