"""What the gateway gives its channels: who answers, which tools read files, what is healthy."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs
from support.agents import write_folder
from support.channel_configs import channel
from support.tables import table
from support.tool_configs import config_of
from support.tool_environments import tool_environment

from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.model import ConversationKey, IncomingMessage, Usage
from everturn_actors.testing import ManualClock, ScriptedProvider, open_test_service
from everturn_channels.access.owners import Owner
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import ChatRef
from everturn_channels.chats.chat_languages import ChatLanguages
from everturn_channels.chats.chat_types import ChatTypes
from everturn_channels.health import Health
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_channels.settings import (
    AccessRules,
    BufferRules,
    DmRules,
    GroupRules,
    QueueRules,
    Route,
)
from everturn_gateway.app import make_price_meter, open_gateway
from everturn_gateway.channels import (
    START_GRACE_S,
    Channels,
    make_channels,
    no_channels,
    route_notes,
)
from everturn_gateway.channels.adapters import chat_type_of
from everturn_gateway.channels.answering import (
    AgentAnswers,
    make_channel_context,
    routes_of,
)
from everturn_gateway.channels.bots import BotChannel
from everturn_gateway.config.settings import Config
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.model_choices import ModelChoices
from everturn_gateway.specs import load_agent, open_library
from everturn_gateway.tools.factory import FactorySettings, open_tool_factory
from everturn_gateway.tools.inbox import keep_in_inbox
from everturn_gateway.usage import UsageLedger

READS, REMEMBERS = config_of("files"), config_of("memory")
SECRET = "X-Telegram-Bot-Api-Secret-Token"
TOKEN = "123456:ABC-DEF_ghi"


def config_with(folder: Path, *routes: Route) -> Config:
    """Return a configuration with two channels that are programs."""
    return Config(
        workspace=folder / "state",
        agents_dir=folder / "agents",
        channels=tuple(
            channel("external", folder=folder, name=name, command=name)
            for name in ("matrix", "irc")
        ),
        routes=routes,
    )


# --- who answers ---


@table(
    ("agents", "expected"),
    [
        (("butler",), "butler"),
        (("assistant", "butler"), "assistant"),
        (("butler", "cook"), None),
        ((), None),
    ],
)
def test_without_routes_the_only_agent_answers_or_the_assistant(
    tmp_path: Path, agents: tuple[str, ...], expected: str | None
) -> None:
    """The first bot needs no routes; which of several answers is not guessed."""
    config = config_with(tmp_path)

    assert routes_of(config, agents) == ((Route(agent=expected),) if expected else ())
    assert bool([*route_notes(config, agents)]) == (expected is None)


def test_it_is_said_when_channels_lead_to_nobody(tmp_path: Path) -> None:
    """A bot that never answers looks broken, and nobody knows why."""
    config = config_with(tmp_path, Route(agent="cook", channel="irc"), Route(agent="butler"))

    assert [*route_notes(config_with(tmp_path), ("a", "b"))] == [
        (
            "no agent answers on matrix, irc: say which one under routes in everturn.yaml;"
            " agents are: a, b"
        )
    ]
    assert [*route_notes(config, ("butler",))] == [
        "routes name the agent 'cook', which is not there; agents are: butler"
    ]
    assert routes_of(config, ("butler",)) == config.routes
    assert [*route_notes(replace(config, channels=()), ())] == []


def test_private_chats_of_telegram_are_known_by_their_id_others_once_they_spoke() -> None:
    """A draft in a group would be refused, and a chat is answered right after a restart."""
    chat_types = ChatTypes()
    chat_types.note(ChatRef(id="9", type="dm"))

    def kind(platform: str, chat: str) -> str:
        key = ConversationKey(channel="any-name", chat=chat, agent="a")
        return chat_type_of(channel(platform).plugin, chat_types)(key)

    assert kind("telegram", "7001") == "dm"
    assert kind("telegram", "-1007001") == "group"
    assert kind("discord", "7001") == "group"
    assert kind("discord", "9") == "dm"


# --- access ---


def test_every_field_of_access_reaches_the_channels(tmp_path: Path) -> None:
    """A rule that is dropped on the way lets somebody in."""
    text = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: builtin, name: builtin}
  access:
    dm:
      policy: open
      allowlist: [12345, "9*"]
      queue: {mode: sequential, max_pending: 3, overflow: reject, reject_message: Wait.,
              debounce: {window_ms: 250}}
    groups:
      policy: disabled
      allowlist: ["telegram:-100*"]
      sender_default: silent
      sender_overrides: {5: block, "1*": passive}
      activation: always
      context_buffer: {mode: passive, max_messages: 9, max_age_hours: 0.5}
      queue: {mode: drop, debounce: {enabled: false}}
"""
    file = load_agent(write_folder(tmp_path / "a", text), environ={})
    closed = text.partition("  access:")[0]

    assert file.access == AccessRules(
        dm=DmRules(
            policy="open",
            allowlist=("12345", "9*"),
            queue=QueueRules(
                mode="sequential",
                max_pending=3,
                overflow="reject",
                reject_message="Wait.",
                debounce_s=0.25,
            ),
        ),
        groups=GroupRules(
            policy="disabled",
            allowlist=("telegram:-100*",),
            sender_default="silent",
            sender_overrides=(("5", "block"), ("1*", "passive")),
            activation="always",
            context_buffer=BufferRules(mode="passive", max_messages=9, max_age_s=1800),
            queue=QueueRules(mode="drop", debounce_s=0),
        ),
    )
    assert file.spec.session.steering
    assert load_agent(write_folder(tmp_path / "b", closed), environ={}).access == AccessRules()


# --- files ---


async def test_a_file_stands_where_the_tools_of_the_agent_read_it(tmp_path: Path) -> None:
    """And nowhere, where none of its tools reads files."""
    # An agent without such tools keeps no files. A file that nothing can read is only a file of
    # somebody's left on the disk.
    environment = tool_environment(tmp_path)

    assert await keep_in_inbox(environment, REMEMBERS, "a.pdf", b"%PDF") is None
    assert not environment.files.exists()

    # It came from a person: nobody else on the machine may read it.
    environment = tool_environment(tmp_path)
    path = await keep_in_inbox(environment, READS, "0a1b-report.pdf", b"%PDF")
    kept = environment.files / "inbox" / "0a1b-report.pdf"
    before = kept.stat().st_ino
    again = await keep_in_inbox(environment, READS, "0a1b-report.pdf", b"%PDF")

    assert path == again == "inbox/0a1b-report.pdf"
    assert (kept.read_bytes(), kept.stat().st_ino) == (b"%PDF", before)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(environment.files.stat().st_mode) == 0o700


@table("name", ["conftest.py", ".npmrc", "Makefile", "-x", "x.config.js", ".git"])
async def test_a_file_gets_no_name_that_programs_take_orders_from(
    tmp_path: Path, name: str
) -> None:
    """Its name comes from whoever sent it."""
    environment = tool_environment(tmp_path)

    path = await keep_in_inbox(environment, READS, name, b"x")

    assert path == f"inbox/received-{name.lstrip('.-')}.file"
    assert (environment.files / path).read_bytes() == b"x"


async def test_a_file_never_leaves_the_inbox(tmp_path: Path) -> None:
    """Neither by its name nor by a link in the inbox's place."""
    # A file is not kept where an inbox leads to such a place. A command of the agent can put a link
    # there.
    environment = tool_environment(tmp_path / "within")
    (environment.files / ".git").mkdir(parents=True)
    (environment.files / "inbox").symlink_to(".git")

    with pytest.raises(OSError, match=r"inbox leads to \.git"):
        await keep_in_inbox(environment, READS, "config", b"x")

    # Names come from strangers, and the agent itself may have put a link there.
    environment, outside = tool_environment(tmp_path / "without"), tmp_path / "outside"
    outside.mkdir()
    environment.files.mkdir(parents=True)
    (environment.files / "inbox").symlink_to(outside)

    for name in ("a.txt", "../a.txt", "..", ""):
        with pytest.raises(OSError, match=r"leads out|is no name"):
            await keep_in_inbox(environment, READS, name, b"x")
    assert [*outside.iterdir()] == []


async def test_the_hall_knows_the_agents_as_they_are_now(tmp_path: Path) -> None:
    """Agents are reloaded while channels run; one that is gone takes nobody down."""
    agent = write_folder(
        tmp_path / "agents" / "butler",
        "apiVersion: duragent/v1alpha1\nkind: Agent\n"
        "metadata: {name: butler, description: At your service.}\n"
        "spec:\n  model: {provider: builtin, name: builtin}\n"
        "  tools: [{type: builtin, name: files}]\n",
    )
    config, clock = config_with(tmp_path), ManualClock()
    provider = ScriptedProvider()
    async with (
        open_tool_factory(
            FactorySettings(
                state=config.workspace,
                keyed=MemoryKeyedStore(),
                environ={},
            ),
            secrets=SecretRegistry(),
            clock=clock,
        ) as tool_factory,
        open_test_service() as opened,
    ):
        library = await open_library(
            config.agents_dir,
            {},
            lambda _model, _folder: provider,
            tool_factory=tool_factory,
        )
        ledger = UsageLedger(MemoryKeyedStore(), "usage/", clock)
        used = Usage(input_tokens=1000, output_tokens=20, cost_nanodollars=4_200_000)
        ledger.add("butler", "openai/x", used, priced=True)
        context = make_channel_context(
            lambda: config,
            opened.service,
            AgentAnswers(
                library=library,
                tool_factory=tool_factory,
                ledger=ledger,
                models=ModelChoices(
                    library=library,
                    meter=make_price_meter(config, clock),
                    environ={},
                    clock=clock,
                ),
            ),
            Pairing(MemoryKeyedStore(), clock),
            clock,
        )
        there = (context.routes(), context.rules("butler"), context.describe_agent("butler"))
        path = await context.save_file("butler", "0a-a.pdf", b"%PDF")
        usage = context.describe_usage(lambda _: True), context.describe_usage(lambda _: False)
        owner = Owner(name="ada", accounts=frozenset({("telegram", "1")}))
        owners = [context.owners()]
        config = replace(config, owners=(owner,))
        owners.append(context.owners())
        (agent / "agent.yaml").unlink()
        await library.reload()
        gone = (context.routes(), context.rules("butler"), context.describe_agent("butler"))
        nowhere = await context.save_file("butler", "0a-b.pdf", b"%PDF")

    assert there == ((Route(agent="butler"),), AccessRules(), "At your service.")
    assert (config.workspace / "files" / "butler" / str(path)).read_bytes() == b"%PDF"
    assert gone == ((), None, "")
    assert nowhere is None
    assert owners == [(), (owner,)]
    assert usage == (
        "**Today**, by UTC\n- `butler`: 1 call, 1,020 tokens, $0.0042",
        "There is no agent.",
    )


# --- chats that moved ---


async def test_a_conversation_is_known_by_either_id_of_its_chat(tmp_path: Path) -> None:
    """A job or a caller may name a group as it is called now."""
    config = config_with(tmp_path)
    keyed = MemoryKeyedStore()
    await keyed.put("channels/matrix.aliases.json", b'{"version": 1, "moves": {"-1": "-100"}}')
    channels = await make_channels(config, keyed, ManualClock(), SecretRegistry())
    key = ConversationKey(channel="matrix", chat="-1", agent="helper")

    assert channels.known_as(key) is key
    assert channels.known_as(structs.replace(key, chat="-100")) == key
    other = structs.replace(key, channel="irc", chat="-100")
    assert channels.known_as(other) is other


# --- health ---


async def opened_channels(folder: Path, clock: ManualClock) -> tuple[Channels, Health, Health]:
    """Return the channels of a gateway that was just started, and the health of both."""
    channels = await make_channels(config_with(folder), MemoryKeyedStore(), clock, SecretRegistry())
    matrix, irc = [cast("BotChannel", channel) for channel in channels._open.values()]
    loaded = [
        await each._load(await each.open_aliases(), ChatLanguages()) for each in (matrix, irc)
    ]
    return channels, loaded[0].health, loaded[1].health


def troubled(channels: Channels) -> list[str]:
    """Return the names of channels that do not receive."""
    return [status.name for status in channels.troubled()]


async def test_a_channel_has_a_minute_to_be_heard_from_and_is_told_when_it_is_lost(
    tmp_path: Path,
) -> None:
    """Whoever balances load must not send people there."""
    # A channel has a minute to be heard from. An idle bot is heard from only when its first long
    # poll ends, but no later.
    clock = ManualClock()
    channels, matrix, _ = await opened_channels(tmp_path, clock)
    matrix.connected("@bot")
    early = troubled(channels)
    clock.advance(START_GRACE_S)

    assert early == []
    assert troubled(channels) == ["matrix", "irc"]

    # A channel that is lost is told at once. Also just after the start: whoever balances load must
    # not send people there.
    clock = ManualClock()
    channels, matrix, irc = await opened_channels(tmp_path, clock)
    matrix.connected("@bot")
    matrix.received()
    irc.failed("the token is refused")
    first = troubled(channels)
    matrix.retrying(clock.now(), "connection refused")
    second = troubled(channels)
    for health in (matrix, irc):
        health.connected("@bot")
        health.received()

    assert (first, second, troubled(channels)) == (["irc"], ["matrix", "irc"], [])


async def test_the_gateway_does_not_wait_until_bots_are_loaded(tmp_path: Path) -> None:
    """Nor does one that is open for a moment load any."""
    # Their libraries take seconds; what is delivered meanwhile is delivered again.
    webhook = {"url": "https://example.org/", "secret": "s"}
    telegram = channel("telegram", bot_token=TOKEN, mode="webhook", webhook=webhook)
    other = channel("telegram", name="b", bot_token=TOKEN, mode="webhook", webhook=webhook)
    config = replace(config_with(tmp_path), channels=(telegram, other))
    channels = await make_channels(config, MemoryKeyedStore(), ManualClock(), SecretRegistry())

    assert [status.state for status in channels.statuses()] == ["starting", "starting"]
    early = await channels.take_webhook("telegram", {SECRET: "s"}, b"{}")
    assert early == DeliveryAnswer(status=503)
    assert await channels.take_webhook("other", {SECRET: "s"}, b"{}") is None

    # A gateway that is open for a moment logs in nowhere. Its turns go to the people of a channel
    # all the same.
    channels = no_channels(config_with(tmp_path), MemoryKeyedStore(), ManualClock())

    assert sorted(channels.delivery_ports) == ["irc", "matrix"]
    assert channels.statuses() == channels.troubled() == ()
    assert await channels.take_webhook("matrix", {}, b"{}") is None


# --- secrets ---


def test_tokens_of_bots_are_masked_in_every_form(tmp_path: Path) -> None:
    """Errors of clients carry the address they asked, and the token stands in it."""
    config = replace(
        config_with(tmp_path),
        channels=(
            channel("telegram", bot_token=TOKEN, webhook={"secret": "whisper"}),
            channel("discord", bot_token="MTA.discord.token"),  # noqa: S106 - made up
            channel(
                "external",
                folder=tmp_path,
                name="irc",
                command="irc",
                env={"IRC_PASSWORD": "swordfish"},
            ),
        ),
    )
    secrets = SecretRegistry()
    for secret in config.secrets:
        secrets.add(secret)
    said = (
        f"https://api.telegram.org/bot{TOKEN}/getUpdates {TOKEN} {TOKEN.replace(':', '%3A')}"
        " https://api.telegram.org/bot654321:other/x Authorization: Bot MTA.discord.token"
        " whisper swordfish"
    )
    masked = secrets.mask(said)

    assert not any(
        word in masked for word in ("ABC", "other", "discord.token", "whisper", "swordfish", TOKEN)
    )
    assert masked.startswith("https://api.telegram.org/bot***/getUpdates *** ***")
    assert not any(secret in repr(config) for secret in config.secrets)
    assert os.fspath(tmp_path) in repr(config)


async def test_what_a_command_s_turn_says_waits_for_the_gateway_that_serves(tmp_path: Path) -> None:
    """`everturn run` in somebody's Telegram session answers them too, once there is a connection.

    So does a turn that a killed gateway left open, and that a command went on with.
    """
    write_folder(
        tmp_path / "agents" / "butler",
        "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: butler}\n"
        "spec: {model: {provider: builtin, name: builtin}}\n",
    )
    config = config_with(tmp_path)
    key = ConversationKey(channel="matrix", chat="c", agent="butler")
    async with open_gateway(config, environ={}, watch=False) as gateway:
        submission = await gateway.service.submit(IncomingMessage(text="2+3", key=key))
        result = await submission.result()
    async with open_gateway(config, environ={}, watch=False, resume=False) as gateway:
        outbox = (await gateway.service.view(result.session_id)).outbox

    assert result.text.startswith("You said: “2+3”.")
    assert [item.text for item in outbox] == [result.text]
