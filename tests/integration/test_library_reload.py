"""The agents of a running gateway: loading, reloading, and the watch on their files."""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
import pytest
from support.agents import write_agent, write_folder
from support.patience import WAIT_S
from support.tables import table
from watchfiles import Change

from everturn_actors.errors import UnknownAgentError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.spec import ModelSpec
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.specs import AgentDefaults, AgentLibrary, open_library
from everturn_gateway.specs.library import AgentFiles
from everturn_gateway.yaml_files import watching

DEADLINE_S = WAIT_S
POLL_MS = 100


class SilentProvider:
    """A model that nobody asks."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        raise NotImplementedError


class Providers:
    """Makes providers and remembers for which models."""

    def __init__(self) -> None:
        self.made: list[ModelSpec] = []

    def make(self, model: ModelSpec, folder: Path) -> SilentProvider:
        assert folder.is_dir()
        if model.provider == "unknown":
            msg = "there is no provider 'unknown'"
            raise GatewayError(msg)
        self.made.append(model)
        return SilentProvider()


async def load(agents_dir: Path, providers: Providers | None = None) -> AgentLibrary:
    """Open a library with providers that do nothing."""
    return await open_library(agents_dir, {}, (providers or Providers()).make)


def description(library: AgentLibrary, name: str) -> str:
    """Return what an agent says of itself, empty where there is no such agent."""
    return library.get(name).spec.description if name in library.names() else ""


def soul(library: AgentLibrary, name: str) -> str:
    """Return the soul of an agent, empty where there is no such agent."""
    return library.get(name).spec.prompt.soul if name in library.names() else ""


def write_version(agents_dir: Path, name: str, version: str) -> None:
    """Write an agent whose description is `version`."""
    write_agent(agents_dir, name)
    file = agents_dir / name / "agent.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace(f"name: {name}\n", f"name: {name}\n  description: {version}\n"),
        encoding="utf-8",
    )


async def test_a_bad_agent_is_set_aside_while_the_others_work(tmp_path: Path) -> None:
    """One mistake must not take every agent down."""
    write_agent(tmp_path, "good")
    write_agent(tmp_path, "bad", "  sesion: {}\n")
    write_agent(tmp_path, "keyless", "")
    keyless = tmp_path / "keyless/agent.yaml"
    keyless.write_text(
        keyless.read_text(encoding="utf-8").replace("provider: builtin", "provider: unknown"),
        encoding="utf-8",
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "README.md").write_text("# Agents", encoding="utf-8")

    library = await load(tmp_path)

    assert library.names() == ("good",)
    assert [str(fault).removeprefix(f"{tmp_path}/") for fault in library.faults()] == [
        "bad/agent.yaml:9: spec.sesion: is not a known field; did you mean session?",
        "keyless/agent.yaml:6: spec.model: there is no provider 'unknown'",
    ]
    with pytest.raises(UnknownAgentError, match=r"there are: good; its folder has faults: .*:9:"):
        library.get("bad")
    with pytest.raises(UnknownAgentError, match=r"no agent 'ugly'; there are: good$"):
        library.file("ugly")


async def test_a_folder_that_is_missing_is_said_and_costs_no_agent(tmp_path: Path) -> None:
    """The gateway starts, and the folder can appear later.

    A file system that is away for a moment must not end every conversation.
    """
    library = await load(tmp_path / "agents")

    assert library.names() == ()
    assert "the agents folder cannot be read" in str(library.faults()[0])

    write_agent(tmp_path / "agents", "late")
    report = await library.reload()

    assert (report.added, report.faults) == (("late",), ())

    (tmp_path / "agents").rename(tmp_path / "elsewhere")
    report = await library.reload()

    assert library.names() == ("late",)
    assert report.removed == ()
    assert len(report.faults) == 1


async def test_a_reload_says_what_was_added_changed_and_removed(tmp_path: Path) -> None:
    """The operator who asked for it wants to know."""
    for name in ("a", "b", "c"):
        write_version(tmp_path, name, "1")
    library = await load(tmp_path)
    before = library.get("a")
    version = library.version
    write_version(tmp_path, "b", "2")
    shutil.rmtree(tmp_path / "c")
    write_version(tmp_path, "d", "1")

    report = await library.reload()
    again = await library.reload()

    assert (report.added, report.changed, report.removed) == (("d",), ("b",), ("c",))
    assert (again.added, again.changed, again.removed) == ((), (), ())
    assert library.version == version + 1
    assert library.get("a") is before
    assert description(library, "b") == "2"


async def test_a_bad_change_keeps_the_last_good_version(tmp_path: Path) -> None:
    """A slip in an editor must not end a running agent."""
    write_version(tmp_path, "a", "1")
    library = await load(tmp_path)
    (tmp_path / "a/agent.yaml").write_text("metadata: [", encoding="utf-8")

    bad = await library.reload()
    write_version(tmp_path, "a", "2")
    good = await library.reload()

    assert (bad.changed, bad.removed) == ((), ())
    assert "is not valid YAML" in str(bad.faults[0])
    assert (good.changed, good.faults) == (("a",), ())
    assert description(library, "a") == "2"


async def test_a_script_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    """Who edits the replies of a demo, or of a summarizer, sees them, as with any other file."""
    model = ("provider: builtin\n    name: builtin", "provider: scripted\n    name: replies.yaml")
    folder = write_agent(tmp_path, "b", replies__yaml="one")
    yaml = folder / "agent.yaml"
    yaml.write_text(yaml.read_text(encoding="utf-8").replace(*model), encoding="utf-8")
    write_summarised(tmp_path, "{provider: scripted, name: s.yaml}")
    (tmp_path / "a/s.yaml").write_text("- a\n", encoding="utf-8")
    library = await load(tmp_path)
    first, before = library.get("b"), library.get("a").summariser
    same = await library.reload()
    (folder / "replies.yaml").write_text("another", encoding="utf-8")
    (tmp_path / "a/s.yaml").write_text("- longer\n", encoding="utf-8")
    changed = await library.reload()
    after = library.get("a").summariser

    assert (same.changed, changed.changed) == ((), ("a", "b"))
    assert library.get("b").provider is not first.provider
    assert before is not None
    assert after is not None
    assert after.provider is not before.provider


def write_summarised(agents_dir: Path, summarizer: str, *, model: str = "gpt-5") -> None:
    """Write the agent `a`, whose summaries come from `summarizer`."""
    text = (
        "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: a}\nspec:\n"
        f"  model: {{provider: openai, name: {model}}}\n"
        f"  session: {{context: {{summarizer: {summarizer}}}}}\n"
    )
    write_folder(agents_dir / "a", text)


async def test_a_provider_is_kept_until_its_model_changes(tmp_path: Path) -> None:
    """Warm connections must survive a change of the prompt, those of a summarizer as well."""
    write_agent(tmp_path / "own", "a", SOUL__md="one")
    providers = Providers()
    library = await load(tmp_path / "own", providers)
    first = library.get("a")
    write_agent(tmp_path / "own", "a", SOUL__md="two")
    await library.reload()
    second = library.get("a")
    write_agent(tmp_path / "own", "a", "    temperature: 0.1\n")
    await library.reload()
    third = library.get("a")

    assert (first.spec.prompt.soul, second.spec.prompt.soul) == ("one", "two")
    assert second.provider is first.provider
    assert third.provider is not first.provider
    assert [model.temperature for model in providers.made] == [0.7, 0.1]

    summarised: list[object] = []
    folder = tmp_path / "summarised"
    for model, summarizer in (
        ("gpt-5", "gpt-5-mini"),
        ("gpt-5.1", "gpt-5-mini"),
        ("gpt-5.1", "gpt-5-nano"),
    ):
        write_summarised(folder, f"{{provider: openai, name: {summarizer}}}", model=model)
        if not summarised:
            library = await load(folder)
        await library.reload()
        made = library.get("a").summariser
        assert made is not None
        assert library.get("a").spec.model.name == model
        summarised.append(made.provider)

    assert summarised[1] is summarised[0]
    assert summarised[2] is not summarised[0]


async def test_summaries_come_from_the_agent_s_own_model_or_the_one_that_is_named(
    tmp_path: Path,
) -> None:
    """One connection serves both, unless somebody wants a cheaper model for it."""
    providers = Providers()
    write_summarised(tmp_path, "")
    library = await load(tmp_path, providers)
    own = library.get("a")

    write_summarised(tmp_path, "{provider: openai, name: gpt-5-mini}")
    await library.reload()
    named = library.get("a")

    write_summarised(tmp_path, "none")
    await library.reload()

    assert own.summariser is not None
    assert own.summariser.provider is own.provider
    assert own.summariser.model == own.spec.model
    assert named.summariser is not None
    assert named.summariser.model.name == "gpt-5-mini"
    assert named.summariser.provider is not named.provider
    assert named.provider is own.provider
    assert library.get("a").summariser is None
    assert [model.name for model in providers.made] == ["gpt-5", "gpt-5-mini"]


async def test_a_model_that_cannot_be_made_is_a_fault_at_its_place(tmp_path: Path) -> None:
    """Where the agent's own model is fine, the line to repair is the summarizer's.

    A provider may know the file and line better than the agent's.
    """
    write_summarised(tmp_path / "one", "{provider: unknown, name: x}")
    write_agent(tmp_path / "two", "a")

    def make(model: ModelSpec, folder: Path) -> SilentProvider:
        raise ConfigError(f"no {model.name} in {folder.name}")  # noqa: EM102, TRY003 - short

    (fault,) = (await load(tmp_path / "one")).faults()
    (placed,) = (await open_library(tmp_path / "two", {}, make)).faults()

    assert str(fault) == (
        f"{tmp_path}/one/a/agent.yaml:6: spec.session.context.summarizer:"
        " there is no provider 'unknown'"
    )
    assert str(placed).endswith("agent.yaml:6: spec.model: no builtin in a")


async def test_a_name_belongs_to_one_folder(tmp_path: Path) -> None:
    """Which of two agents answers must not depend on chance, nor change when one is added."""
    write_agent(tmp_path, "twin")
    (tmp_path / "twin").rename(tmp_path / "second")
    library = await load(tmp_path)
    write_agent(tmp_path, "first").joinpath("agent.yaml").write_text(
        (tmp_path / "second/agent.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    write_agent(tmp_path, "twin")

    report = await library.reload()
    fresh = await load(tmp_path)

    assert library.file("twin").folder == tmp_path / "second"
    assert [str(fault) for fault in report.faults] == [
        f"{tmp_path}/{folder}/agent.yaml:4: metadata.name:"
        f" is also the name of the agent in {tmp_path}/second"
        for folder in ("first", "twin")
    ]
    assert fresh.file("twin").folder == tmp_path / "twin"


async def test_the_gateway_s_session_settings_reach_the_agents(tmp_path: Path) -> None:
    """`sessions:` in everturn.yaml is for all agents."""
    write_agent(tmp_path, "a")

    library = await open_library(
        tmp_path, {}, Providers().make, defaults=AgentDefaults(sessions=SessionsConfig(ttl_hours=5))
    )

    assert library.get("a").spec.session.ttl_hours == 5


async def test_jobs_of_agents_follow_their_files(tmp_path: Path) -> None:
    """What an agent says at set times is edited as its soul is; the workspace's zone holds."""
    heartbeat, morning = "  heartbeat: {}\n", '{id: morning, cron: "30 6 * * *", task: x}'
    write_agent(tmp_path, "a", f"  schedules: [{morning}]\n")
    beating = write_agent(tmp_path, "b", heartbeat, HEARTBEAT__md="# Nothing yet\n")
    library = await open_library(
        tmp_path, {}, Providers().make, defaults=AgentDefaults(timezone="Europe/Berlin")
    )
    before = [job.job_id for job in library.jobs()]
    silent = library.faults()

    (beating / "HEARTBEAT.md").write_text("Any storm?\n")
    report = await library.reload()
    again = await library.reload()
    ids = [job.job_id for job in library.jobs()]
    (beating / "agent.yaml").write_text("[")
    await library.reload()

    assert before == ["a.morning"]
    assert ["so there is no heartbeat" in str(fault) for fault in silent] == [True]
    assert (report.changed, report.faults) == (("b",), ())
    assert again.changed == ()
    assert ids == ["a.morning", "b.heartbeat"]
    assert [job.job_id for job in library.jobs()] == ids


async def until(library: AgentLibrary, holds: Callable[[], bool]) -> None:
    """Wait until a reload has made it so."""
    while not holds():
        await library.wait_beyond(library.version)


@asynccontextmanager
async def watched(library: AgentLibrary) -> AsyncGenerator[None]:
    """Watch its files, under a deadline."""
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(library.watch, poll_ms=POLL_MS))
            yield
            tasks.cancel_scope.cancel()


async def test_changes_are_seen_while_the_gateway_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents are edited in place; nobody restarts a gateway for a comma."""
    write_version(tmp_path, "a", "0")
    library = await load(tmp_path)
    write_version(tmp_path, "a", "1")  # the gateway starts everything else before it watches

    async with watched(library):
        assert description(library, "a") == "1"
        write_version(tmp_path, "a", "2")
        await until(library, lambda: description(library, "a") == "2")

        write_agent(tmp_path, "b", SOUL__md="x")
        await until(library, lambda: soul(library, "b") == "x")

        (tmp_path / "b/SOUL.md").write_text("y", encoding="utf-8")
        await until(library, lambda: soul(library, "b") == "y")

        with caplog.at_level(logging.INFO, "everturn_gateway.specs.library"):
            (tmp_path / "b/agent.yaml").write_text("[", encoding="utf-8")
            await until(library, lambda: bool(library.faults()))

        shutil.rmtree(tmp_path / "b")
        await until(library, lambda: library.names() == ("a",))

    assert library.faults() == ()
    assert "agent has a fault" in caplog.text


async def test_a_folder_made_anew_is_watched_anew(tmp_path: Path) -> None:
    """Deployments replace the folder as a whole, or make it after the start."""
    agents = tmp_path / "agents"
    library = await load(agents)

    async with watched(library):
        write_version(agents, "a", "1")
        await until(library, lambda: description(library, "a") == "1")

        write_version(tmp_path / "new", "a", "2")
        agents.rename(tmp_path / "old")
        (tmp_path / "new").rename(agents)
        await until(library, lambda: description(library, "a") == "2")

        write_version(agents, "a", "3")
        await until(library, lambda: description(library, "a") == "3")

    assert library.names() == ("a",)


async def test_where_the_system_cannot_tell_of_changes_the_folder_is_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watches run out on busy machines; the gateway must go on, and hot reload with it."""

    def no_watches_left(*_paths: Path, **_options: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "no watches left")

    monkeypatch.setattr(watching, "watch", no_watches_left)
    write_version(tmp_path, "a", "1")
    library = await load(tmp_path)

    async with watched(library):
        write_version(tmp_path, "a", "2")
        await until(library, lambda: description(library, "a") == "2")

    assert library.faults() == ()


@table(
    ("path", "expected"),
    [
        ("a", True),
        ("a/agent.yaml", True),
        ("a/SOUL.md", True),
        ("a/directives/memory.md", True),
        ("a/memory", False),
        ("a/memory/daily/2026-01-01.md", False),
        ("memory/agent.yaml", True),
        ("a/.SOUL.md.swp", False),
        ("a/SOUL.md~", False),
    ],
)
def test_what_an_agent_writes_while_it_works_is_not_watched(path: str, *, expected: bool) -> None:
    """An agent that remembers something in each turn would be read again in each turn."""
    watched_files = AgentFiles(Path("/srv/memory"))

    assert watched_files(Change.modified, f"/srv/memory/{path}") is expected
