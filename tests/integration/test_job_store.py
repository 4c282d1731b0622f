"""The folder of job files: what is read, what is set aside, what is written, what is noticed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from support.patience import WAIT_S
from support.stores import FullDisk
from support.tables import table
from watchfiles import Change

from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.model import ConversationKey
from everturn_gateway.scheduler.definitions import job_store as book_module
from everturn_gateway.scheduler.definitions.job_store import JobStore, Page
from everturn_gateway.scheduler.definitions.kept_jobs import KeptJobs
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.jobs import Made, SendMessage
from everturn_gateway.yaml_files import reading

DEADLINE_S = WAIT_S
POLL_MS = 100
ZONE = "Europe/Berlin"
JOB = """\
agent: assistant
cron: "30 8 * * *"
message: {message}
to: {{channel: telegram, chat: 1}}
"""
MADE = Made(by="http", at=datetime(2026, 12, 1, tzinfo=UTC))
SECTION = JobSettings.model_validate(
    {
        "id": "ignored",
        "agent": "assistant",
        "every": "15m",
        "message": "Hello ${HOME}.",
        "to": {"channel": "telegram", "chat": 1},
    }
)


def write_job(folder: Path, name: str, message: str = "Hello.", more: str = "") -> Path:
    """Write a job file."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(JOB.format(message=message) + more, encoding="utf-8")
    return file


def texts(page: Page) -> dict[str, str]:
    """Return what each job says, by id."""
    return {
        job.job_id: job.payload.text for job in page.jobs if isinstance(job.payload, SendMessage)
    }


def faults(page: Page, folder: Path) -> list[str]:
    """Return the faults, the folder left out."""
    return [str(fault).replace(f"{folder}/", "") for fault in page.faults]


def names(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, and below."""
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def no_links(_source: Path, _target: Path) -> None:
    """Do as `os.link` does on a file system without such links."""
    raise OSError(errno.EPERM, "Operation not permitted")


def mode(path: Path) -> int:
    """Return who may read and write it."""
    return stat.S_IMODE(path.stat().st_mode)


# --- reading ---


async def test_files_are_jobs_and_other_files_are_not(tmp_path: Path) -> None:
    """Notes, drafts of editors and what is below the folder are nobody's jobs."""
    before = datetime(2026, 12, 1, 8, 30, 0, 250_000, tzinfo=UTC)
    file = write_job(tmp_path, "b.yaml", "${HOME} is a text")
    os.utime(file, ns=(0, int(before.timestamp() * 1_000_000) * 1000))
    write_job(tmp_path, "a.yml", "two", 'id: "second"\nlabel: The second\n')
    for name in ("README.md", ".b.yaml.swp", ".hidden.yaml", "c.yaml~", "c.yaml.bak"):
        write_job(tmp_path, name)
    write_job(tmp_path / "cancelled", "gone.yaml")
    (tmp_path / "runs").mkdir()

    page = await JobStore(tmp_path, timezone=ZONE).read()

    assert (texts(page), page.faults) == ({"second": "two", "b": "${HOME} is a text"}, ())
    assert [(job.job_id, job.file.name, job.line) for job in page.jobs] == [
        ("second", "a.yml", 1),
        ("b", "b.yaml", 1),
    ]
    assert page.jobs[1].written_at == before
    assert page.jobs[1].made == Made(by="file")


async def test_a_bad_file_is_set_aside_with_its_place_while_the_others_work(tmp_path: Path) -> None:
    """One mistake must not silence every reminder, and it is found by its line."""
    good = write_job(tmp_path, "good.yaml")
    write_job(tmp_path, "syntax.yaml", "[")
    write_job(tmp_path, "field.yaml", more="grace_secs: 5\n")
    write_job(tmp_path, "date.yaml", more="start: 2026-02-30T08:00\n")
    write_job(tmp_path, "Upper.yaml")
    (tmp_path / "nobody.yaml").write_text(good.read_text().replace("agent: assistant\n", ""))
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "bytes.yaml").write_bytes(b"message: \xff\n")
    (tmp_path / "large.yaml").write_text(f"message: {'x' * 256 * 1024}\n")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")

    page = await JobStore(tmp_path, timezone=ZONE).read()
    found = faults(page, tmp_path)

    assert list(texts(page)) == ["good"]
    assert [line.split(" ")[0] for line in found] == [
        "Upper.yaml:1:",
        "bytes.yaml:1:",
        "date.yaml:5:",
        "empty.yaml:1:",
        "empty.yaml:1:",
        "empty.yaml:1:",
        "field.yaml:5:",
        "folder.yaml:",
        "large.yaml:",
        "list.yaml:1:",
        "nobody.yaml:1:",
        "pipe.yaml:",
        "syntax.yaml:5:",
    ]
    assert found[0].startswith("Upper.yaml:1: id: is by default the name of the file, 'Upper', and")
    assert found[2] == (
        "date.yaml:5: start: there is no date 2026-02-30: day is out of range for month"
    )
    assert found[6] == (
        "field.yaml:5: grace_secs: is not a known field; did you mean grace_seconds?"
    )
    assert found[8] == "large.yaml: is larger than 256 KiB, which no job is"
    assert found[10].startswith("nobody.yaml:1: agent: is required")


async def test_links_that_lead_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    """Whoever can place a link would have the gateway read any file, and tell of its lines."""
    folder = tmp_path / "schedules"
    target = write_job(folder, "real.yaml")
    outside = write_job(tmp_path / "other", "secret.yaml")
    (folder / "inside.yaml").symlink_to(target)
    (folder / "outside.yaml").symlink_to(outside)
    (folder / "nowhere.yaml").symlink_to(folder / "missing")
    (folder / "self.yaml").symlink_to("self.yaml")
    (tmp_path / "link").symlink_to(folder)

    page = await JobStore(tmp_path / "link", timezone=ZONE).read()

    assert list(texts(page)) == ["inside", "real"]
    assert faults(page, tmp_path / "link") == [
        "nowhere.yaml: is a link that leads nowhere",
        "outside.yaml: is a link that leads out of its folder",
        "self.yaml: is a link that leads to itself",
    ]


async def test_two_files_of_one_id_are_one_job_and_a_fault(tmp_path: Path) -> None:
    """It must not run twice, and which of them it is does not change by itself."""
    book = JobStore(tmp_path, timezone=ZONE)
    write_job(tmp_path, "m.yaml", "m", "id: twin\n")
    write_job(tmp_path, "z.yaml", "z", "id: twin\n")

    first = await book.read()
    write_job(tmp_path, "a.yaml", "a", "id: twin\n")
    second = await book.read()
    write_job(tmp_path, "m.yaml", "[", "id: twin\n")
    broken = await book.read()
    write_job(tmp_path, "m.yaml", "m", "id: other\n")
    third = await book.read()

    assert (texts(first), faults(first, tmp_path)) == (
        {"twin": "m"},
        ["z.yaml:1: id: twin is also the id of m.yaml"],
    )
    assert texts(second) == {"twin": "m"}
    assert [fault.file.name for fault in second.faults] == ["a.yaml", "z.yaml"]
    assert texts(broken) == {}
    assert texts(third) == {"twin": "a", "other": "m"}
    assert faults(third, tmp_path) == ["z.yaml:1: id: twin is also the id of a.yaml"]


async def test_the_same_file_is_read_once_and_every_change_of_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of jobs cost nothing while nobody changes them."""
    read: list[str] = []

    def counted(file: Path, environ: None) -> object:
        read.append(file.name)
        return reading.read_document(file, environ)

    monkeypatch.setattr(book_module, "read_document", counted)
    book = JobStore(tmp_path, timezone=ZONE)
    assert await book.read() == Page()

    write_job(tmp_path, "a.yaml", "one")
    bad = write_job(tmp_path, "b.yaml", "[")
    first = await book.read()
    again = await book.read()
    seen = list(read)
    old = bad.stat()
    write_job(tmp_path, "b.yaml", "2")
    os.utime(bad, ns=(old.st_atime_ns, old.st_mtime_ns))
    changed = await book.read()
    (tmp_path / "a.yaml").unlink()
    removed = await book.read()

    assert seen == ["a.yaml", "b.yaml"]
    assert again is first
    assert texts(again) == {"a": "one"}
    assert texts(changed) == {"a": "one", "b": "2"}
    assert texts(removed) == {"b": "2"}
    assert read == ["a.yaml", "b.yaml", "b.yaml"]


async def test_what_goes_while_it_is_read_is_no_fault_and_calls_no_job_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People and editors remove files whenever they like.

    A disk that is not mounted for a moment looks like an empty folder.
    """
    folder = tmp_path / "schedules"
    write_job(folder, "gone.yaml")
    write_job(folder, "there.yaml")

    def removed(file: Path, environ: None) -> object:
        (folder / "gone.yaml").unlink(missing_ok=True)
        return reading.read_document(file, environ)

    monkeypatch.setattr(book_module, "read_document", removed)
    book = JobStore(folder, timezone=ZONE)
    page = await book.read()
    folder.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        await book.read()
    (tmp_path / "away").rename(folder)
    again = await book.read()

    assert (list(texts(page)), page.faults) == (["there"], ())
    assert list(texts(again)) == ["there"]


# --- writing ---


async def test_a_job_that_is_written_is_read_as_it_was_meant(tmp_path: Path) -> None:
    """What a model or a caller says stays literal, and nobody else can read it."""
    folder = tmp_path / "workspace/schedules"
    book = JobStore(folder, timezone=ZONE)
    key = ConversationKey(channel="telegram", chat="1", agent="assistant")
    made = Made(by="tool", at=datetime(2026, 12, 1, tzinfo=UTC), key=key, untrusted=True)

    await book.write("reminder", SECTION, made)
    page = await book.read()
    (job,) = page.jobs

    assert page.faults == ()
    assert (job.job_id, job.made) == ("reminder", made)
    assert job == book.job_of(SECTION, job_id="reminder", made=made)
    assert job.payload == SendMessage(text="Hello ${HOME}.")
    assert names(folder) == ["reminder.yaml"]
    assert (mode(folder / "reminder.yaml"), mode(folder)) == (0o600, 0o700)


@table(
    ("name", "text"),
    [
        ("reminder.yaml", JOB.format(message="x")),
        ("reminder.yml", JOB.format(message="x")),
        ("other.yaml", JOB.format(message="x") + "id: reminder\n"),
        ("other.yaml", "id: reminder\nevery: nonsense\n"),
        ("reminder.yaml", "["),
    ],
    ids=["yaml", "yml", "id", "faulty id", "unreadable"],
)
async def test_no_file_is_overwritten_or_given_a_twin(tmp_path: Path, name: str, text: str) -> None:
    """A file that is set aside is still somebody's work."""
    (tmp_path / name).write_text(text)
    book = JobStore(tmp_path, timezone=ZONE)

    with pytest.raises(FileExistsError):
        await book.write("reminder", SECTION, MADE)

    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == text


@table("has_links", [True, False], ids=["links", "no links"])
async def test_a_file_made_at_the_same_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_links: bool
) -> None:
    """Between the look and the write somebody else may have been quicker."""
    synced = os.fsync

    def somebody_else(descriptor: int) -> None:
        (tmp_path / "reminder.yaml").write_text("theirs")
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", somebody_else)
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)

    with pytest.raises(FileExistsError):
        await JobStore(tmp_path).write("reminder", SECTION, MADE)

    assert names(tmp_path) == ["reminder.yaml"]
    assert (tmp_path / "reminder.yaml").read_text() == "theirs"


async def test_file_systems_without_links_have_jobs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace may lie on one, and there neither is a file overwritten."""
    monkeypatch.setattr(os, "link", no_links)
    book = JobStore(tmp_path, timezone=ZONE)
    await book.write("reminder", SECTION, MADE)
    written = (tmp_path / "reminder.yaml").read_text()
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nowhere")

    with pytest.raises(FileExistsError):
        await book.write("reminder", SECTION, MADE)
    with pytest.raises(FileExistsError):
        await book.write("dangling", SECTION, MADE)

    assert (tmp_path / "reminder.yaml").read_text() == written
    assert names(tmp_path) == ["reminder.yaml"]


async def test_a_job_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a job may be a valid one without its end; and its id becomes part of a path."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ValueError, match="lower-case letters"):
        await JobStore(tmp_path / "schedules").write("../x", SECTION, MADE)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        await JobStore(tmp_path).write("reminder", SECTION, MADE)

    assert names(tmp_path) == []


async def test_a_job_that_is_called_off_is_kept_apart(tmp_path: Path) -> None:
    """Somebody may want it back; the newest one of a name is kept."""
    book = JobStore(tmp_path, timezone=ZONE)
    file = tmp_path / "a.yaml"
    for message in ("old", "new"):
        write_job(tmp_path, file.name, message)
        await book.read()
        await book.put_away(file)
    await book.put_away(file)
    page = await book.read()

    assert page == Page()
    assert names(tmp_path) == ["cancelled/a.yaml"]
    assert "message: new" in (tmp_path / "cancelled/a.yaml").read_text()
    assert mode(tmp_path / "cancelled") == 0o700


# --- watching ---


class Seen:
    """Reads a book whenever it is told of a change."""

    def __init__(self, book: JobStore) -> None:
        self.page = Page()
        self.times = 0
        self._book = book
        self._news = anyio.Event()

    async def on_change(self) -> None:
        self.page = await self._book.read()
        self.times += 1
        self._news.set()
        self._news = anyio.Event()

    async def until(self, ids: list[str]) -> None:
        """Wait until these jobs are there."""
        while list(texts(self.page)) != ids:
            await self._news.wait()


@asynccontextmanager
async def watched(folder: Path) -> AsyncGenerator[Seen]:
    """Watch a folder, under a deadline."""
    book = JobStore(folder, timezone=ZONE)
    seen = Seen(book)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(book.watch, seen.on_change, poll_ms=POLL_MS))
            yield seen
            tasks.cancel_scope.cancel()


async def test_changes_are_told_while_the_gateway_runs(tmp_path: Path) -> None:
    """Jobs are edited in place; nobody restarts a gateway for a reminder.

    A workspace has no folder for them until there is a first job; until then nothing is done.
    """
    folder = tmp_path / "schedules"

    async with watched(folder) as seen:
        times = seen.times
        write_job(folder, "a.yaml")
        await seen.until(["a"])
        write_job(folder, "b.yaml")
        await seen.until(["a", "b"])
    async with watched(folder) as seen:
        first = list(texts(seen.page))
        (folder / "a.yaml").unlink()
        await seen.until(["b"])

    assert times == 1
    assert first == ["a", "b"]


@table(
    ("name", "expected"),
    [
        ("a.yaml", True),
        ("a.yml", True),
        (".a.yaml.new", False),
        (".a.yaml", False),
        ("a.yaml~", False),
        ("runs", False),
        ("runs/a.jsonl", False),
    ],
)
def test_what_the_scheduler_writes_while_it_works_is_not_told(name: str, *, expected: bool) -> None:
    """Each run would have all jobs be read again."""
    folder = Path("/srv/schedules")

    assert book_module._job_files(folder)(Change.modified, str(folder / name)) is expected


async def test_jobs_of_programs_follow_a_store_that_several_machines_open(tmp_path: Path) -> None:
    """A job is called off where the gateway runs now, and comes back on no other machine."""
    keyed = MemoryKeyedStore()
    here, there = tmp_path / "here", tmp_path / "there"
    await JobStore(here, timezone=ZONE).write("before", SECTION, MADE)
    write_job(here, "mine.yaml")
    first = KeptJobs(here, keyed, timezone=ZONE)
    begun = await first.read()
    await first.write("new", SECTION, MADE)
    second = KeptJobs(there, keyed, timezone=ZONE)
    elsewhere = await second.read()
    await second.put_away(there / "new.yaml")
    back = await KeptJobs(here, keyed, timezone=ZONE).read()

    assert set(texts(begun)) == {"before", "mine"}
    assert set(texts(elsewhere)) == {"before", "new"}
    assert (there / "before.yaml").read_bytes() == (here / "before.yaml").read_bytes()
    assert set(texts(back)) == {"before", "mine"}
    assert (here / "cancelled" / "new.yaml").exists()


async def test_a_job_that_its_store_did_not_take_is_not_there(tmp_path: Path) -> None:
    """Whoever made it was told that it failed."""
    keyed = FullDisk()
    jobs = KeptJobs(tmp_path, keyed, timezone=ZONE)
    await jobs.read()
    keyed.is_full = True
    with pytest.raises(OSError, match="disk is full"):
        await jobs.write("new", SECTION, MADE)

    assert texts(await jobs.read()) == {}


class _Busy(MemoryKeyedStore):
    """Something changes while it is listed."""

    then: Callable[[], Awaitable[None]] | None = None

    async def list(self, prefix: str) -> tuple[str, ...]:
        """Return what is there; the change is not."""
        found, then, self.then = await super().list(prefix), self.then, None
        if then is not None:
            await then()
        return found


async def test_a_job_that_was_made_elsewhere_during_a_look_is_there_at_the_next(
    tmp_path: Path,
) -> None:
    """Whoever made it on a machine that does not run it asks for it at once."""
    keyed = _Busy()
    jobs, elsewhere = (KeptJobs(tmp_path / name, keyed, timezone=ZONE) for name in ("a", "b"))
    await elsewhere.read()

    async def make() -> None:
        await elsewhere.write("new", SECTION, MADE)
        jobs.look_again()

    keyed.then = make

    assert set(texts(await jobs.read())) == set()
    assert set(texts(await jobs.read())) == {"new"}
