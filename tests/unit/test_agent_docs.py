"""What the pages about agents say must be true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from support.agent_schema import SCHEMA, VALIDATOR
from support.agents import write_folder
from support.tables import table

from everturn_gateway.plugins import installed
from everturn_gateway.scheduler.jobs import Cron, RunTask, ToChat
from everturn_gateway.specs import load_agent

ROOT = Path(__file__).parents[2]
AGENTS = sorted(path.parent.name for path in (ROOT / "agents").glob("*/agent.yaml"))
README = (ROOT / "agents/README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def field_names() -> Iterator[str]:
    """Yield the name of every field that the schema knows."""
    for section in (SCHEMA, *SCHEMA["$defs"].values()):
        yield from section["properties"]
        yield from (
            name for each in section.get("allOf", ()) for name in each["then"]["properties"]
        )


@table("name", AGENTS)
def test_every_agent_of_the_checkout_works_as_it_stands(name: str) -> None:
    """`make run` serves them to people who have set nothing."""
    file = load_agent(ROOT / "agents" / name, environ={})

    assert (file.spec.name, file.warnings, file.inactive) == (name, (), ())
    assert f"[{name}]({name}/agent.yaml)" in README


@table(
    ("environ", "zone", "to"),
    [
        ({}, "UTC", ToChat(channel="terminal", chat="digest")),
        (
            {
                "DIGEST_CHANNEL": "telegram",
                "DIGEST_CHAT": "-100123456",
                "DIGEST_TIMEZONE": "Europe/Berlin",
            },
            "Europe/Berlin",
            ToChat(channel="telegram", chat="-100123456"),
        ),
    ],
)
def test_the_digest_is_posted_where_the_environment_says(
    environ: dict[str, str], zone: str, to: ToChat
) -> None:
    """Nobody has to change a file of the checkout to see it in their own chat."""
    (job,) = load_agent(ROOT / "agents" / "digest", environ=environ).jobs

    assert job.job_id == "digest.weekdays"
    assert job.when == Cron(expression="0 8 * * mon-fri", timezone=zone)
    assert job.to == to
    assert isinstance(job.payload, RunTask)


@table("snippet", SNIPPETS)
def test_every_agent_in_the_guide_loads(tmp_path: Path, snippet: str) -> None:
    """People copy from it."""
    folder = write_folder(tmp_path / "weather-desk", snippet)

    file = load_agent(folder, environ={})

    VALIDATOR.validate(json.loads(json.dumps(file.document)))
    assert file.spec.name == "weather-desk"


def test_the_guide_has_agents_to_copy() -> None:
    """The test above must not pass by finding none."""
    assert len(SNIPPETS) >= 5


@table("name", sorted(set(field_names())))
def test_the_table_of_fields_is_complete(name: str) -> None:
    """A field that stands nowhere is not found."""
    sections = {"spec", "metadata", "model", "session", "context", "access", "dm", "groups"}

    assert f"`{name}" in README or f"`{name}[]" in README or name in sections | {"tools", "hooks"}


def test_the_numbers_of_every_policy_stand_there_with_its_own_values() -> None:
    """People tune by this table; a number that is missing is one that nobody finds."""
    rows = dict(re.findall(r"^\| ([a-z]+) \| (`.*) \|$", README, re.MULTILINE))
    told = {name: dict(re.findall(r"`(\w+)`(?: \(([^)]*)\))?", row)) for name, row in rows.items()}

    assert told == {
        plugin.name: {
            name: shown(getattr(plugin.policy.numbers, name))
            for name in plugin.settings.model_fields
        }
        for plugin in installed().policies.all()
    }


def shown(value: object) -> str:
    """Return a number as the table has it; empty where the policy decides by itself."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def test_every_built_in_tool_stands_there_with_its_settings() -> None:
    """What is there and not told is not used."""
    rows = re.findall(r"^\| `type: builtin`, (`name: .*?) \| (.*?) ?\|$", README, re.MULTILINE)
    told = [(set(re.findall(r"`(?:name: )?(\w+)`", names)), fields) for names, fields in rows]
    tools = installed().tools
    named = [each for each in tools.all() if tools.is_own(each.name) and not each.given_by]

    assert sorted(map(sorted, (names for names, _ in told))) == sorted(
        sorted(plugin.names) for plugin in named
    )
    for plugin in named:
        fields = next(fields for names, fields in told if plugin.name in names)
        assert [name for name in plugin.settings.model_fields if f"`{name}`" not in fields] == []
