"""What `docs/tools.md` says must be true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
from anyio import to_thread
from support.agents import MINIMAL, write_folder
from support.tables import table

from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.testing import ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.specs import load_agent
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.factory import FactorySettings, open_tool_factory

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SETTINGS = [each for each in SNIPPETS if not each.startswith("# policy.yaml")]
ROWS = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\| `(\{.*\})` \|$", PAGE, re.MULTILINE)
EVERYTHING = """\
  memory: {backend: filesystem}
  session: {context: {recall: true}}
  tools:
    - {type: builtin, name: files}
    - {type: builtin, name: bash}
    - {type: builtin, name: background_process}
    - {type: builtin, name: web, search: {provider: brave, api_key: sesame-sesame}}
    - {type: builtin, name: session}
    - {type: builtin, name: schedule}
    - {type: builtin, name: delegate}
    - {type: builtin, name: reload_tools}
    - {type: builtin, name: todo}
    - {type: builtin, name: compact_context}
    - {type: builtin, name: send_file}
    - {type: builtin, name: view_image}
    - {type: builtin, name: ask_user}
    - {type: builtin, name: browser}
"""
SKILL = "---\nname: daily-note\ndescription: Keeps notes.\n---\nKeep them.\n"


def everything(folder: Path) -> tuple[Path, ToolConfig]:
    """Write an agent with every built-in tool; return its folder and its plan."""
    write_folder(folder, MINIMAL.format(name="test") + EVERYTHING)
    skill = folder / "skills" / "daily-note" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL, encoding="utf-8")
    return folder, load_agent(folder, environ={}).tool_config


@table("snippet", SETTINGS)
def test_every_setting_on_the_page_loads(tmp_path: Path, snippet: str) -> None:
    """People copy from it."""
    folder = write_folder(tmp_path / "test", MINIMAL.format(name="test") + snippet)

    assert load_agent(folder, environ={}).inactive == ()


def test_the_policy_on_the_page_loads(tmp_path: Path) -> None:
    """A pattern that is none would let nobody in, or everybody."""
    [policy] = set(SNIPPETS) - set(SETTINGS)
    folder = write_folder(tmp_path / "test", MINIMAL.format(name="test"))
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    loaded = load_agent(folder, environ={}).tool_config.policy

    assert (loaded.mode, len(loaded.deny), len(loaded.allow)) == ("ask", 2, 4)


async def test_the_table_names_every_tool_and_each_example_fits(tmp_path: Path) -> None:
    """What is there and not told is not used; an example that fails teaches the wrong thing."""
    folder, config = await to_thread.run_sync(everything, tmp_path / "test")
    async with open_tool_factory(
        FactorySettings(
            state=tmp_path / "state",
            keyed=MemoryKeyedStore(),
            environ={},
        ),
        secrets=SecretRegistry(),
        clock=ManualClock(),
    ) as shop:
        environment = shop.environment(agent="test", home=folder, files=None)
        tools = (await to_thread.run_sync(shop.make_tools, config, environment)).tools
        schemas = {name: tool.definition.parameters for name, tool in tools.items()}
        free = {name for name, tool in tools.items() if tool.capabilities.safe}

    assert {name for name, _, _ in ROWS} == set(schemas)
    assert {name for name, asks, _ in ROWS if not asks.strip().startswith("yes")} == free
    for name, _, example in ROWS:
        jsonschema.validate(json.loads(example), {**schemas[name], "additionalProperties": False})
