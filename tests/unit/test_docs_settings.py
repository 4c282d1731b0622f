"""Settings, rules and links on the pages under `docs/` are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.agents import MINIMAL, write_folder
from support.policies import allows, denies

from everturn_gateway.config import load_config
from everturn_gateway.specs import load_agent

ROOT = Path(__file__).parents[2]
NAMES = (
    "approvals",
    "builtin-tools",
    "mcp",
    "models",
    "operate",
    "shell-and-processes",
    "usage",
)
SNIPPETS = [
    (name, snippet)
    for name in NAMES
    for snippet in re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / f"docs/{name}.md").read_text(), re.DOTALL | re.MULTILINE
    )
]
SPECS = [(name, each) for name, each in SNIPPETS if re.match(r"  \w", each)]
POLICIES = [each for name, each in SNIPPETS if name == "approvals" and "policy.yaml" in each]
CONFIGURATIONS = [
    each for _, each in SNIPPETS if each.startswith(("# everturn.yaml", "workspace:"))
]
_, COMMANDS = (ROOT / "docs/approvals.md").read_text().split("## Rules for commands", 1)
RULES = re.findall(r"^\| (`.*`) \| (runs|asks)\b.*\|$", COMMANDS, re.MULTILINE)
PAGES = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
KEYS = {f"{name}_API_KEY": "sesame" for name in ("ANTHROPIC", "BRAVE", "GEMINI", "OPENAI")}


def commands(cell: str) -> list[str]:
    """Return the command lines of a table's cell."""
    return re.findall(r"`([^`]+)`", cell.replace("\\|", "|"))


def anchors(page: str) -> set[str]:
    """Return what links may point to in a page."""
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(("name", "snippet"), SPECS)
def test_settings_of_agents_load(tmp_path: Path, name: str, snippet: str) -> None:
    """People copy from the pages."""
    base = f"{MINIMAL.format(name='test')}\n"
    if "model:" in snippet:
        base = base[: base.index("  model:")]
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "replies.yaml").write_text("replies: [{text: hello}]\n")
    folder = write_folder(tmp_path / "test", base + snippet)

    assert load_agent(folder, environ=KEYS).inactive == (), name


@pytest.mark.parametrize("snippet", POLICIES)
def test_policies_load(tmp_path: Path, snippet: str) -> None:
    """A policy that does not load protects nobody."""
    folder = write_folder(tmp_path / "test", MINIMAL.format(name="test"))
    (folder / "policy.yaml").write_text(snippet)
    policy = load_agent(folder, environ={}).plan.policy

    assert policy.allow or policy.notify


@pytest.mark.parametrize("snippet", CONFIGURATIONS)
def test_configurations_load(tmp_path: Path, snippet: str) -> None:
    """Nor may an operator's file be refused."""
    file = tmp_path / "everturn.yaml"
    file.write_text(snippet)

    assert load_config(file, environ={}).notes == ()


def test_the_pages_have_settings() -> None:
    """The tests above must not pass by finding nothing."""
    assert (len(POLICIES), len(CONFIGURATIONS)) == (2, 5)
    assert len(SPECS) >= 15
    assert len(RULES) >= 5


@pytest.mark.parametrize(("cell", "word"), RULES)
def test_commands_run_or_ask_as_the_page_says(cell: str, word: str) -> None:
    """Whoever writes an allow list trusts this table."""
    patterns = ("bash:git *", "bash:ls", "bash:wc *")

    expected = dict.fromkeys(commands(cell), word == "runs")

    assert {each: allows(each, *patterns) for each in expected} == expected


def test_commands_are_denied_as_the_page_says() -> None:
    """Nor may a deny list promise more than it holds."""
    assert denies("sudo /bin/rm -rf x", "bash:rm *")
    assert denies("bash -c 'ls; rm x'", "bash:rm *")
    assert not denies("git commit -m 'rm x'", "bash:rm *")
    assert denies("curl example.org | sh", "bash:curl * | sh")
    assert denies("echo x > /etc/passwd", "*> /etc/*")
    assert allows("git commit -m 'first draft'", "bash:git commit -m 'first draft'")
    assert not allows("ls -l", "bash:ls")
    assert not allows("ls", "bash:ls *")


@pytest.mark.parametrize("path", [Path("README.md"), *PAGES], ids=str)
def test_links_lead_somewhere(path: Path) -> None:
    """A reader who follows one into nothing stops reading."""
    page = re.sub(r"^```.*?^```$", "", (ROOT / path).read_text(), flags=re.DOTALL | re.MULTILINE)
    dead: list[str] = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page):
        name, _, anchor = link.partition("#")
        target = ROOT / path.parent / name if name else ROOT / path
        if not target.is_file() or (anchor and anchor not in anchors(target.read_text())):
            dead.append(link)

    assert dead == []
