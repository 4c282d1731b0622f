"""Whatever stands in a job's file is a job, or what is wrong and where; what is written is read."""

from __future__ import annotations

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from everturn_gateway.errors import ConfigError
from everturn_gateway.scheduler.definitions.making import Source, job_of
from everturn_gateway.scheduler.definitions.reading import interval_text, read_interval
from everturn_gateway.scheduler.definitions.settings import JobSettings, made_section, section_text
from everturn_gateway.scheduler.jobs import Job, Made
from everturn_gateway.yaml_files import check, read_document

NOISE = st.text(st.sampled_from(list("ab0-:{}[]&*!|>'\"%@`#,?~<$\\\t\n ")), max_size=60)
TIMES = st.sampled_from(
    [
        "2026-12-01T08:30",
        "2026-12-01",
        "2027-03-28 02:30:00",
        "2027-10-31T02:30",
        "2026-02-30T00:00",
        "1970-01-01T00:00+14:00",
        "9998-12-31T23:59:59.999999-14:00",
        "9999-12-31T23:59Z",
        "0001-01-01T00:00",
        "2026-12-01T08:30+99:99",
    ]
)
CRONS = st.one_of(
    st.sampled_from(["30 8 * * mon-fri", "0 0 30 2 *", "0 0 29 2 *", "*/15 * * * *", "@daily", ""]),
    st.text(st.sampled_from(list("0123456789*/-,#LWmonjan ")), max_size=20),
)
ZONES = st.sampled_from(["Europe/Berlin", "UTC", "Mars", "../x", "", "Pacific/Apia", "x\0"])
TARGETS = st.fixed_dictionaries(
    {},
    optional={
        "channel": st.sampled_from(["telegram", "schedule", "", " "]),
        "chat": st.one_of(st.integers(), st.text(max_size=5)),
        "topic": st.text(max_size=5),
        "session": st.text(max_size=5),
        "webhook": st.sampled_from(["https://a.example/x", "http://u:p@h", "ftp://x", "https://["]),
    },
)
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.dates(),
    st.datetimes(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.text(max_size=6),
    "agent": st.sampled_from(["a", "", "../a"]),
    "label": st.text(max_size=6),
    "at": TIMES,
    "every": st.one_of(st.integers(-1, 10), st.sampled_from(["15m", "1.5h", "9w", ""])),
    "cron": CRONS,
    "timezone": ZONES,
    "message": st.text(max_size=10),
    "task": st.text(max_size=10),
    "to": TARGETS,
    "session": st.sampled_from(["conversation", "isolated", "x"]),
    "misfire": st.sampled_from(["run_once", "skip", "run_all", ""]),
    "grace_seconds": st.integers(-1, 5),
    "jitter_seconds": st.integers(-1, 5),
    "start": TIMES,
    "end": TIMES,
    "max_runs": st.integers(-1, 2),
    "retries": st.dictionaries(
        st.sampled_from(["max", "backoff_seconds"]), st.integers(-1, 4000), max_size=2
    ),
    "made": st.fixed_dictionaries({"by": st.sampled_from(["tool", "me"])}, optional={"at": TIMES}),
}
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={name: st.one_of(each, ANYTHING) for name, each in FIELDS.items()}
)
CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))


def is_text(text: str) -> bool:
    """Return whether a job may say it."""
    return bool(text.strip()) and CONTROLS.isdisjoint(text)


TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(st.sampled_from(list("ab :#-'\"|>%{}[]&*!\n\t\r\u2028\ufeff🎄")), max_size=40),
).filter(is_text)


def job_in(file: Path, timezone: str) -> Job:
    """Return the job in a file.

    Raises:
        ConfigError: With every fault.
    """
    document = read_document(file, None)
    section, faults = check(document, JobSettings)
    if section is None:
        raise ConfigError(faults=faults)
    return job_of(section, job_id="job", timezone=timezone, source=Source(document=document))


def read(content: str, timezone: str = "Europe/Berlin") -> Job | tuple[tuple[int, str], ...]:
    """Return the job in a file of this content, or the line and field of each fault."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.yaml"
        file.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            return job_in(file, timezone)
        except ConfigError as error:
            return tuple((fault.line, fault.field) for fault in error.faults)


def are_placed(found: Job | tuple[tuple[int, str], ...], content: str) -> bool:
    """Return whether it is a job, or there are faults with a line that is there."""
    lines = range(len(re.split("\r\n|[\n\r\x85\u2028\u2029]", content)) + 1)  # as YAML 1.1 has it
    return isinstance(found, Job) or (bool(found) and all(line in lines for line, _ in found))


@given(NOISE)
@example("every: 5m\nagent: a\ntask: x")
@example("at: !!timestamp 2026-12-01")
@example("task: &a [*a]")
def test_any_text_is_a_job_or_faults(content: str) -> None:
    """A file that breaks the reader would take all other jobs with it."""
    found = read(content)

    assert are_placed(found, content)


@given(DOCUMENTS, st.sampled_from(["", "Europe/Berlin"]))
def test_any_fields_are_a_job_or_faults_with_a_line(fields: dict[str, Any], timezone: str) -> None:
    """And each fault names a line that is there, for somebody has to find it."""
    content = yaml.safe_dump(fields, allow_unicode=True)

    found = read(content, timezone)

    assert are_placed(found, content)


@given(
    TEXTS,
    st.sampled_from([{"every": 90}, {"cron": "*/5 * * * *"}, {"at": "2026-12-01 08:30"}]),
    st.sampled_from(["message", "task"]),
)
@example("a\n", {"every": 90}, "task")
@example(" a\n  b\n\n", {"every": 90}, "task")
@example("\n\na", {"every": 90}, "task")
@example("a: ${HOME}\r\nb\u2028c", {"every": 90}, "task")
def test_what_is_written_is_read_as_it_was(text: str, when: dict[str, Any], kind: str) -> None:
    """A reminder that comes back with other words is not the one that was asked for."""
    made = Made(by="tool", at=datetime(2026, 12, 1, tzinfo=UTC))
    to = {"channel": "telegram", "chat": "-1"}
    section = JobSettings.model_validate({"agent": "a", **when, kind: text, "to": to})
    written = section.model_copy(update={"made": made_section(made)})

    meant = job_of(section, job_id="job", timezone="Europe/Berlin", made=made)

    assert read(section_text(written)) == meant


@given(st.integers(1, 366 * 86_400))
def test_a_span_of_time_is_read_as_it_is_shown(seconds: int) -> None:
    """Lists and files show it as text."""
    assert read_interval(interval_text(seconds)) == seconds
