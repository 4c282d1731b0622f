"""A whole gateway on models that fail, are busy, take keys from files, and cost money."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from support.agents import write_folder
from support.command import everturn
from support.model_api import (
    Answer,
    open_model_api,
    overflow,
    rate_limited,
    server_error,
    unauthorized,
)
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.events import Event, TurnFinished
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.service import TextDelta, TurnResult
from everturn_gateway.app import USAGE_FOLDER, Gateway, open_gateway
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.usage import Tally, read_usage, total

KEY = "sk-test-0123456789"
AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model:
    provider: openai
    name: big
    base_url: {first}
    temperature: 0.6
    fallbacks:
      - {{provider: openrouter, name: small, base_url: "{second}", max_output_tokens: 99}}
"""
PRICES = """\
prices:
  openai/big: {input: 2, cached: 1, output: 10}
  openrouter/small: {input: 20, output: 100}
"""
COSTS_NANODOLLARS = (11 - 3) * 2_000 + 3 * 1_000 + 7 * 10_000  # of an `Answer` of the first model


def write(folder: Path, agent: str, config: str = "") -> None:
    """Write the folder of a gateway with one agent."""
    write_folder(folder / "agents" / "helper", agent)
    (folder / "everturn.yaml").write_text(config, encoding="utf-8")


async def read_config(folder: Path) -> Config:
    """Return its configuration."""
    load = partial(load_config, folder / "everturn.yaml", environ={})
    return await anyio.to_thread.run_sync(load)


@asynccontextmanager
async def opened(
    folder: Path,
    environ: Mapping[str, str] | None = None,
    secrets: SecretRegistry | None = None,
) -> AsyncGenerator[Gateway]:
    """Open the gateway of a folder."""
    config = await read_config(folder)
    given = {"OPENAI_API_KEY": KEY} if environ is None else environ
    with anyio.fail_after(WAIT_S):
        async with open_gateway(config, environ=given, watch=False, secrets=secrets) as gateway:
            assert gateway.library.faults() == ()
            yield gateway


async def say(gateway: Gateway, text: str, chat: str = "chat") -> TurnResult:
    """Say something to the agent and wait for the end of the turn."""
    key = ConversationKey(channel="test", chat=chat, agent="helper")
    submission = await gateway.service.submit(IncomingMessage(text=text, key=key))
    return await submission.result()


@table(
    "answer", [server_error(), rate_limited(retry_after="30"), unauthorized(), server_error(529)]
)
async def test_a_turn_is_answered_while_the_model_is_down(tmp_path: Path, answer: Answer) -> None:
    """The person notices nothing; the next turn does not even ask the one that is down."""
    async with open_model_api() as first, open_model_api() as second:
        first.default = answer
        second.default = Answer(text="I am the other one.")
        write(tmp_path, AGENT.format(first=first.url, second=second.url))
        async with opened(tmp_path) as gateway:
            one = await say(gateway, "Hello")
            two = await say(gateway, "Still there?")

    assert (one.outcome, one.text) == ("answered", "I am the other one.")
    assert two.outcome == "answered"
    assert (first.count, second.count) == (1, 2)
    sent = second.requests[0].json()
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("small", 99, 0.6)
    assert "authorization" not in second.requests[0].headers  # the key is the first one's


async def test_the_log_says_which_model_answered(tmp_path: Path) -> None:
    """Whoever wonders about a strange reply finds out, also after a restart."""
    async with open_model_api() as first, open_model_api() as second:
        first.script(server_error())
        write(tmp_path, AGENT.format(first=first.url, second=second.url))
        async with opened(tmp_path) as gateway:
            result = await say(gateway, "Hello")
        async with opened(tmp_path) as gateway:
            state = await gateway.service.view(result.session_id)

    (turn,) = state.conversation.turns
    assert [step.reply.fallback for step in turn.steps] == ["openrouter/small"]


async def test_a_small_window_of_the_fallback_is_not_learnt_for_the_own_model(
    tmp_path: Path,
) -> None:
    """One outage would make the agent forget its long conversations for good."""
    async with open_model_api() as first, open_model_api() as second:
        first.default = unauthorized()
        second.default = overflow()
        write(tmp_path, AGENT.format(first=first.url, second=second.url))
        async with opened(tmp_path) as gateway:
            result = await say(gateway, "Hello")
            state = await gateway.service.view(result.session_id)
            report = await gateway.service.reader.context(result.session_id)

    assert result.outcome == "failed"
    assert "Incorrect API key" in result.error
    assert "fallback openrouter/small:" in result.error
    assert report.window_tokens > 8192  # which is what the fallback named
    assert state.conversation.reductions.cut_turn == 0


async def test_a_reply_that_cannot_be_taken_back_is_not_begun_again_elsewhere(
    tmp_path: Path,
) -> None:
    """The person has read half an answer for good; another model would give another one."""
    async with open_model_api() as first, open_model_api() as second:
        first.script(Answer(text="The answer is 42 of course", cut_after=3))
        write(tmp_path, AGENT.format(first=first.url, second=second.url))
        async with opened(tmp_path) as gateway:
            key = ConversationKey(channel="test", chat="chat", agent="helper")
            submission = await gateway.service.submit(IncomingMessage(text="Hi", key=key))
            seen = [update async for update in submission.updates(final=True)]

    end = seen[-1]
    assert "".join(each.text for each in seen if isinstance(each, TextDelta)) == "The answer is"
    assert isinstance(end, Event)
    assert isinstance(end.body, TurnFinished)
    assert end.body.outcome == "failed"
    assert second.count == 0


async def test_a_provider_gets_no_more_calls_at_once_than_its_owner_wants(tmp_path: Path) -> None:
    """Six conversations at once, and a server that takes two."""
    gate = anyio.Event()
    async with open_model_api() as api:
        api.default = Answer(text="one two", hold={0: gate})
        write(
            tmp_path,
            AGENT.format(first=api.url, second=api.url),
            "providers: {openai: {max_concurrent: 2}}\n",
        )
        async with opened(tmp_path) as gateway, anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(say, gateway, "Hello", f"chat-{number}")
            await api.received(2)
            await anyio.wait_all_tasks_blocked()
            most = api.count
            gate.set()

    assert most == 2
    assert api.count == 6


async def test_a_key_is_read_from_a_file_and_masked(tmp_path: Path) -> None:
    """The environment of a process can be read by more programs than a file."""
    secrets = SecretRegistry()
    path = tmp_path / "openai.key"
    path.write_text(f"{KEY}\n", encoding="utf-8")
    path.chmod(0o600)
    async with open_model_api() as api:
        write(
            tmp_path,
            AGENT.format(first=api.url, second=api.url),
            "providers: {openai: {api_key_file: openai.key}}\n",
        )
        async with opened(tmp_path, {}, secrets) as gateway:
            result = await say(gateway, "Hello")

    assert result.outcome == "answered"
    assert api.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert secrets.mask(f"the key {KEY} leaks") == "the key *** leaks"


async def test_a_key_that_others_can_read_is_a_fault_of_the_agent(tmp_path: Path) -> None:
    """It is told at the start, with the command that sets it right; the key itself is not."""
    (tmp_path / "openai.key").write_text(KEY, encoding="utf-8")
    (tmp_path / "openai.key").chmod(0o644)
    write(
        tmp_path,
        AGENT.format(first="http://127.0.0.1:1/v1", second="http://127.0.0.1:1/v1"),
        "providers: {openai: {api_key_file: openai.key}}\n",
    )
    config = await read_config(tmp_path)
    async with open_gateway(config, environ={}, watch=False) as gateway:
        faults = gateway.library.faults()

    path = tmp_path / "openai.key"
    assert [(fault.line, fault.field, fault.message) for fault in faults] == [
        (
            5,
            "spec.model",
            f"the key file {path} is open to other users (0644); chmod 600 {path}",
        )
    ]


async def used(folder: Path) -> Tally:
    """Return what the files say was used today and yesterday."""
    until = SystemClock().now().date()
    store = FileKeyedStore(folder / ".everturn")
    rows = await read_usage(store, USAGE_FOLDER, until=until, days=2)
    return total(row.tally for row in rows)


async def test_turn_session_and_day_tell_the_same_cost(tmp_path: Path) -> None:
    """A fallback costs what it costs, not what the agent's own model would have."""
    async with open_model_api() as first, open_model_api() as second:
        write(tmp_path, AGENT.format(first=first.url, second=second.url), PRICES)
        async with opened(tmp_path) as gateway:
            one = await say(gateway, "Hello")
            first.script(server_error())
            two = await say(gateway, "Again")
            state = await gateway.service.view(one.session_id)
            today = gateway.usage.today("helper")

    dear = 11 * 20_000 + 7 * 100_000
    assert one.usage.cost_nanodollars == COSTS_NANODOLLARS
    assert two.usage.cost_nanodollars == dear
    assert state.usage.cost_nanodollars == today.cost_nanodollars == COSTS_NANODOLLARS + dear
    assert (today.calls, today.unpriced_calls) == (2, 0)
    assert await used(tmp_path) == today


async def test_a_limit_holds_across_a_restart_and_names_itself(tmp_path: Path) -> None:
    """Whoever talks to the agent reads why it is silent; nobody pays for a retry."""
    async with open_model_api() as api:
        agent = AGENT.format(first=api.url, second=api.url)
        write(tmp_path, f"{agent}  usage: {{daily_tokens: 30}}\n", PRICES)
        results = []
        for _ in range(2):
            async with opened(tmp_path) as gateway:
                results += [await say(gateway, "Hello"), await say(gateway, "Again")]

    assert [result.outcome for result in results] == ["answered", "answered", "failed", "failed"]
    assert results[2].error.startswith(
        "agent 'helper' has used up its daily limit of 30 tokens (36 used); it goes on at "
    )
    assert api.count == 2


async def test_a_process_that_is_killed_loses_seconds_at_most(tmp_path: Path) -> None:
    """What was saved before stands; the next start counts on."""
    async with open_model_api() as api:
        write(tmp_path, AGENT.format(first=api.url, second=api.url), PRICES)
        async with opened(tmp_path) as gateway:
            await say(gateway, "Hello")
            await gateway.usage.flush()
            after_kill = await used(tmp_path)
            await say(gateway, "Again")

    assert after_kill.calls == 1
    assert (await used(tmp_path)).calls == 2


async def test_the_command_line_shows_what_was_used(tmp_path: Path) -> None:
    """It needs no gateway, and a script gets JSON."""
    async with open_model_api() as first, open_model_api() as second:
        first.script(Answer(text="one"), server_error())
        write(
            tmp_path,
            AGENT.format(first=first.url, second=second.url),
            "prices: {openai/big: {input: 200, cached: 100, output: 1000}}\n",
        )
        nothing = await everturn("usage", cwd=tmp_path)
        async with opened(tmp_path) as gateway:
            session = (await say(gateway, "Hello")).session_id
            await say(gateway, "Hello", "another chat")
    shown = await everturn("sessions", "show", session, cwd=tmp_path, env={"OPENAI_API_KEY": KEY})
    table = await everturn("usage", "--agent", "helper", cwd=tmp_path)
    as_json = await everturn("usage", "--json", "--days", "2", cwd=tmp_path)
    document = json.loads(as_json.out)

    assert nothing.out == "no model was called in the last 7 days\n"
    assert "out\ncost      $0.0089\n" in shown.out
    assert [(row["agent"], row["model"], row["calls"]) for row in document["rows"]] == [
        ("helper", "openai/big", 1),
        ("helper", "openrouter/small", 1),
    ]
    assert document["total"] == {
        "calls": 2,
        "input_tokens": 22,
        "output_tokens": 14,
        "cached_tokens": 6,
        "cache_written_tokens": 0,
        "unpriced_calls": 1,
        "cost_usd": 0.0089,
        "saved_usd": 0.0003,
    }
    assert "$0.0089 + ?" in table.out
    assert "?  the cost of 1 call is not known" in table.out


async def test_a_damaged_file_of_usage_is_named(tmp_path: Path) -> None:
    """The report must not look complete where a month is missing."""
    write(tmp_path, AGENT.format(first="http://127.0.0.1:1/v1", second="http://127.0.0.1:1/v1"))
    folder = tmp_path / ".everturn/usage"
    folder.mkdir(parents=True)
    path = folder / f"{SystemClock().now():%Y-%m}.json"
    path.write_bytes(b"{")
    done = await everturn("usage", cwd=tmp_path)

    assert done.code == 2
    assert f"usage cannot be read: {path} is damaged" in done.err
    assert path.read_bytes() == b"{"


async def test_agents_are_checked_with_keys_prices_and_fallbacks(tmp_path: Path) -> None:
    """What would fail tonight is said now."""
    agent = AGENT.format(first="http://127.0.0.1:1/v1", second="http://127.0.0.1:1/v1")
    write(tmp_path, f"{agent}  usage: {{daily_cost_usd: 2}}\n")
    no_price = await everturn("agent", "validate", cwd=tmp_path)
    (tmp_path / "everturn.yaml").write_text(PRICES, encoding="utf-8")
    fine = await everturn("agent", "validate", "helper", cwd=tmp_path)
    shown = await everturn("agent", "show", "helper", cwd=tmp_path)

    assert "agent.yaml:12: spec.usage.daily_cost_usd: cannot be kept" in no_price.err
    assert fine.code == 0, fine.err
    assert "fallback     openrouter / small\n" in shown.out
    assert "daily limit  $2\n" in shown.out
