"""More calls of models than may be made at once: they wait, and none fails for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
from msgspec.structs import replace
from support.agents import write_folder
from support.model_api import Answer, open_model_api
from support.patience import WAIT_S

from everturn_actors.model import ConversationKey, IncomingMessage, ModelRequest, Reply
from everturn_actors.service import TurnResult
from everturn_actors.testing import ScriptedProvider, make_spec, open_test_service
from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.config.settings import load_config
from everturn_gateway.providers.limits import ConcurrencyLimits

MANY = 300
AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model: {{provider: openai, name: big, base_url: "{url}"}}
"""


@asynccontextmanager
async def opened(folder: Path, url: str, config: str = "") -> AsyncGenerator[Gateway]:
    """Open a gateway whose one agent's model is at `url`."""
    write_folder(folder / "agents" / "helper", AGENT.format(url=url))
    (folder / "everturn.yaml").write_text(config, encoding="utf-8")
    load = partial(load_config, folder / "everturn.yaml", environ={})
    read = await anyio.to_thread.run_sync(load)
    with anyio.fail_after(WAIT_S):
        async with open_gateway(read, environ={}, watch=False) as gateway:
            assert gateway.library.faults() == ()
            yield gateway


async def ask(gateway: Gateway, chat: str, results: list[TurnResult]) -> None:
    """Say something in a chat of its own and wait for the end of the turn."""
    key = ConversationKey(channel="test", chat=chat, agent="helper")
    submission = await gateway.service.submit(IncomingMessage(text="Hello", key=key))
    results.append(await submission.result())


async def scraped(gateway: Gateway, name: str) -> float:
    """Return the value of a metric of one queue."""
    told = (await gateway.telemetry.exposition("")).body.decode()
    (line,) = (line for line in told.splitlines() if line.startswith(name + "{"))
    return float(line.rpartition(" ")[2])


async def test_calls_beyond_the_connections_of_an_address_wait(tmp_path: Path) -> None:
    """Whoever finds no free place is told so, and is answered like the others."""
    held, results = anyio.Event(), list[TurnResult]()
    async with (
        open_model_api(default=Answer(text="Yes.", hold={0: held})) as api,
        opened(tmp_path, api.url) as gateway,
        anyio.create_task_group() as tasks,
    ):
        for number in range(MANY):
            tasks.start_soon(ask, gateway, str(number), results)
        await api.received(256)
        while await scraped(gateway, "everturn_model_calls_waiting") < MANY - 256:
            await anyio.lowlevel.checkpoint()
        called = api.count
        sessions = await gateway.service.reader.sessions(after="", limit=MANY)
        waits = [gateway.service.activity.waiting_for(each.session_id) for each in sessions]
        running = await scraped(gateway, "everturn_model_calls_running")
        held.set()

    assert (called, running) == (256, 256)
    assert len([why for why in waits if why.startswith("a free place for a call to ")]) == 44
    assert [result.outcome for result in results] == ["answered"] * MANY


async def test_with_a_small_limit_all_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """Three hundred conversations and four places."""
    results = list[TurnResult]()
    config = "providers: {openai: {max_concurrent: 4}}"
    async with (
        open_model_api(default=Answer(text="Yes.", delay_s=0.005)) as api,
        opened(tmp_path, api.url, config) as gateway,
    ):
        async with anyio.create_task_group() as tasks:
            for number in range(MANY):
                tasks.start_soon(ask, gateway, str(number), results)
        waited = await scraped(gateway, "everturn_model_wait_seconds_count")
        calls = api.count

    assert [result.outcome for result in results] == ["answered"] * MANY
    assert (calls, waited) == (MANY, MANY)


class Queued(ScriptedProvider):
    """A model behind a queue of one place; counts its callers, also those that wait."""

    def __init__(self, model: ScriptedProvider) -> None:
        super().__init__()
        self._limited = ConcurrencyLimits({"openai": 1}).limited("openai", model)

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the next reply of the model, when there is room."""
        self.requests.append(request)
        self._called.set()
        return await self._limited.complete(request, on_text)


async def test_the_deadline_of_a_call_that_waits_is_no_failed_try() -> None:
    """Nothing is wrong with the model: the turn waits on, as often as that takes."""
    model = ScriptedProvider()
    queued = Queued(model)
    spec = make_spec()
    spec = replace(spec, session=replace(spec.session, call_timeout_s=0.2))
    model.hold()
    with anyio.fail_after(WAIT_S):
        async with (
            anyio.create_task_group() as tasks,
            open_test_service(provider=queued, spec=spec) as test,
        ):
            other = ModelRequest(model="m", system="", messages=())
            tasks.start_soon(queued.complete, other, lambda _piece: None)
            await model.until_called(1)
            inbound = IncomingMessage(text="Hello", key=test.key())
            submission = await test.service.submit(inbound)
            await queued.until_called(8)
            why = test.service.activity.waiting_for(submission.session_id)
            model.release()
            result = await submission.result()

    assert why.startswith("a free place for a call to openai: 1 are under way")
    assert (result.outcome, len(model.requests)) == ("answered", 2)
