"""Settings, rules and links on the pages under `docs/` are true."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

from pydantic.fields import FieldInfo
from support.agents import MINIMAL, write_folder
from support.job_runs import a_cron, coming
from support.policies import allows, denies
from support.tables import table

from everturn_actors.events import Body
from everturn_gateway.builtin.channels import TELEGRAM_API, TelegramSettings, WebhookSettings
from everturn_gateway.config.settings import load_config
from everturn_gateway.plugins import PluginChannelSettings, installed
from everturn_gateway.plugins.channels import BacklogSettings, DeliverySettings
from everturn_gateway.scheduler.definitions.job_store import JobStore
from everturn_gateway.scheduler.definitions.settings import JobSettings, RetriesSettings
from everturn_gateway.scheduler.jobs import GRACE_S
from everturn_gateway.scheduler.rules.records import Line
from everturn_gateway.specs import load_agent

ROOT = Path(__file__).parents[2]
NAMES = (
    "README",
    "docs/approvals",
    "docs/builtin-tools",
    "docs/discord",
    "docs/email",
    "docs/groups",
    "docs/matrix",
    "docs/mcp",
    "docs/models",
    "docs/operate",
    "docs/plugin-channel",
    "docs/slack",
    "docs/schedules",
    "docs/shell-and-processes",
    "docs/telegram",
    "docs/usage",
    "docs/voice",
    "docs/whatsapp",
)
SNIPPETS = [
    (name, snippet)
    for name in NAMES
    for snippet in re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / f"{name}.md").read_text(), re.DOTALL | re.MULTILINE
    )
]
SPECS = [(name, each) for name, each in SNIPPETS if re.match(r"  \w", each)]
POLICIES = [each for name, each in SNIPPETS if name.endswith("approvals") and "policy.yaml" in each]
CONFIGURATIONS = [
    each for _, each in SNIPPETS if each.startswith(("# everturn.yaml", "workspace:"))
]
JOBS = [each for _, each in SNIPPETS if each.startswith("# .everturn/schedules/")]
OWNERS = [each for _, each in SNIPPETS if each.startswith(("owners:", "links:"))]
SCHEDULES = (ROOT / "docs/schedules.md").read_text()
NIGHTS = re.findall(r"^\| `([^`|]+ \* \*)` \|([^|]*)\|([^|]*)\|$", SCHEDULES, re.MULTILINE)
_, COMMANDS = (ROOT / "docs/approvals.md").read_text().split("## Rules for commands", 1)
RULES = re.findall(r"^\| (`.*`) \| (runs|asks)\b.*\|$", COMMANDS, re.MULTILINE)
PAGES = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
KEYS = {f"{name}_API_KEY": "sesame" for name in ("ANTHROPIC", "BRAVE", "GEMINI", "OPENAI")}
TOKENS = {
    "TELEGRAM_BOT_TOKEN": "1:one",
    "FAMILY_BOT_TOKEN": "2:two",
    "DISCORD_BOT_TOKEN": "three",
    "CLUB_BOT_TOKEN": "four",
    "MATRIX_PASSWORD": "five",
    "EMAIL_PASSWORD": "six",
    "SLACK_BOT_TOKEN": "xoxb-seven",
    "SLACK_APP_TOKEN": "xapp-eight",
    "SLACK_SIGNING_SECRET": "nine",
    "WHATSAPP_TOKEN": "ten",
    "WHATSAPP_APP_SECRET": "0123456789abcdef0123456789abcdef",
    "WHATSAPP_VERIFY_TOKEN": "eleven",
    "TELEGRAM_WEBHOOK_SECRET": "secret",
}
SECTIONS = [(plugin.docs, plugin.settings) for plugin in installed().channels.all()]


def commands(cell: str) -> list[str]:
    """Return the command lines of a table's cell."""
    return re.findall(r"`([^`]+)`", cell.replace("\\|", "|"))


def default_of(section: type[PluginChannelSettings], name: str, field: FieldInfo) -> str:
    """Return the default of a setting in the words of the pages."""
    # Empty is allowed where the channel is switched off.
    if field.is_required() or name in {"bot_token", "token", "app_secret", "verify_token"}:
        return "required"
    if (section, name) == (TelegramSettings, "api_base"):
        return TELEGRAM_API
    match field.get_default(call_default_factory=True):
        case bool() as value:
            return str(value).lower()
        case BacklogSettings() as backlog:
            return f"{backlog.max_messages}, {backlog.max_age_hours:g}"
        case DeliverySettings() as delivery:
            return f"{delivery.give_up_after_hours:g}"
        case WebhookSettings():
            return "none"
        case value:
            return str(value) if value else "none"


@cache
def spoken() -> str:
    """Return the sources of the program, with literals that go on in the next line put together."""
    sources = (each for name in ("channels", "gateway") for each in (ROOT / name).rglob("*.py"))
    text = "\n".join(each.read_text(encoding="utf-8") for each in sources)
    return re.sub(r'"\s*\n\s*f?"', "", text)


def anchors(page: str) -> set[str]:
    """Return what links may point to in a page."""
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@table(("name", "snippet"), SPECS)
def test_settings_of_agents_load(tmp_path: Path, name: str, snippet: str) -> None:
    """People copy from the pages."""
    base = f"{MINIMAL.format(name='test')}\n"
    if "model:" in snippet:
        base = base[: base.index("  model:")]
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "replies.yaml").write_text("replies: [{text: hello}]\n")
    folder = write_folder(tmp_path / "test", base + snippet)

    assert load_agent(folder, environ=KEYS).inactive == (), name


@table("snippet", POLICIES)
def test_policies_load(tmp_path: Path, snippet: str) -> None:
    """A policy that does not load protects nobody."""
    folder = write_folder(tmp_path / "test", MINIMAL.format(name="test"))
    (folder / "policy.yaml").write_text(snippet)
    policy = load_agent(folder, environ={}).tool_config.policy

    assert policy.allow or policy.notify


@table("snippet", CONFIGURATIONS)
def test_configurations_load(tmp_path: Path, snippet: str) -> None:
    """Nor may an operator's file be refused."""
    file = tmp_path / "everturn.yaml"
    file.write_text(snippet)

    assert load_config(file, environ=TOKENS).notes == ()


def test_the_pages_have_settings() -> None:
    """The tests above must not pass by finding nothing, or by leaving a block out."""
    # The tests above must not pass by finding nothing.
    assert (len(POLICIES), len(CONFIGURATIONS)) == (3, 24)
    assert len(SPECS) >= 20
    assert len(RULES) >= 5
    assert len(JOBS) >= 5
    assert len(NIGHTS) >= 5

    # Every setting of chats is loaded above. A block that no test knows may be wrong.
    known = {*CONFIGURATIONS, *JOBS, *OWNERS, *(each for _, each in SPECS)}
    chats = {"docs/telegram", "docs/discord", "docs/groups", "docs/plugin-channel"}
    pages = {*chats, "docs/schedules", "README"}

    assert {name for name, _ in SNIPPETS} >= pages
    assert [each for name, each in SNIPPETS if name in pages and each not in known] == []


@table("snippet", OWNERS)
def test_owners_load(tmp_path: Path, snippet: str) -> None:
    """Somebody copies them, names and ids changed."""
    file = tmp_path / "everturn.yaml"
    file.write_text(snippet)

    assert all(owner.accounts for owner in load_config(file, environ=TOKENS).owners)


@table(("page", "section"), SECTIONS)
def test_settings_of_channels_stand_on_their_pages(
    page: str, section: type[PluginChannelSettings]
) -> None:
    """Who sets up a bot looks into these tables, not into the source."""
    text = (ROOT / page).read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.MULTILINE))
    fields = section.model_fields
    defaults = {name: default_of(section, name, field) for name, field in fields.items()}

    assert [name for name in fields if f"`{name}`" not in text] == []
    assert {name: told[name] for name in fields if name in told} == {
        name: value for name, value in defaults.items() if name in told
    }
    assert len(told) >= 6


@table("snippet", JOBS)
async def test_jobs_load(tmp_path: Path, snippet: str) -> None:
    """A job that is copied from a page has to run, and not to be set aside."""
    (name,) = re.findall(r"^# \.everturn/schedules/(\S+)$", snippet, re.MULTILINE)
    (tmp_path / name).write_text(snippet)
    page = await JobStore(tmp_path).read()

    assert page.faults == ()
    assert [f"{job.job_id}.yaml" for job in page.jobs] == [name]


def test_everything_that_a_job_may_say_stands_on_its_page() -> None:
    """Who writes a job looks into this table, not into the source."""
    _, table = SCHEDULES.split("## Everything that a job may say", 1)
    table, _ = table.split("\n## ", 1)
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", table, re.MULTILINE))
    fields = {name: each for name, each in JobSettings.model_fields.items() if name != "made"}
    defaults = {name: each.default for name, each in fields.items()}
    retries = RetriesSettings()
    defaults |= {
        "id": "the file's name",
        "agent": "required",
        "grace_seconds": GRACE_S["run_once"],
        "paused": "false",
        "retries": f"max {retries.max}, backoff_seconds {retries.backoff_seconds}",
    }

    assert told == {
        name: "none" if default is None else str(default) for name, default in defaults.items()
    }
    assert f"with `misfire: skip` {GRACE_S['skip']} |" in SCHEDULES


@table(("expression", "spring", "autumn"), NIGHTS)
def test_jobs_run_on_the_nights_of_change_as_the_page_says(
    expression: str, spring: str, autumn: str
) -> None:
    """Nobody can try this out but twice a year."""
    zone = ZoneInfo("Europe/Berlin")
    for day, cell in (("2026-03-29", spring), ("2026-10-25", autumn)):
        begins = datetime.combine(datetime.fromisoformat(day), time(1, 45), zone)
        ends = datetime.combine(datetime.fromisoformat(day), time(3), zone)
        job = a_cron(expression, zone.key)
        found = coming(job, begins - timedelta(seconds=1), ends)

        shown = ", ".join(f"{moment.astimezone(zone):%H:%M}" for moment in found)
        assert shown == cell.strip()


def test_every_kind_of_event_and_line_stands_on_its_page() -> None:
    """Programs that follow a conversation, or a job, meet all of them."""
    # Every line of a run log stands on its page. It is read when something went wrong.
    kinds = [each.__name__.lower() for each in get_args(Line)]

    assert [kind for kind in kinds if f"`{kind}`" not in SCHEDULES] == []
    assert "rebased" in kinds

    # Every kind of event stands on the page of the api. Programs that follow a conversation meet
    # all of them.
    page = (ROOT / "docs/http-api.md").read_text()
    kinds = [re.sub(r"(?<!^)(?=[A-Z])", "_", body.__name__).lower() for body in get_args(Body)]

    assert [kind for kind in kinds if f"`{kind}`" not in page] == []
    assert "chunk_marked" in kinds


@table("page", ["telegram", "discord", "schedules"])
def test_what_the_program_says_is_quoted_right(page: str) -> None:
    """People look for the words that they see; an ellipsis stands for what differs."""
    text = (ROOT / f"docs/{page}.md").read_text()
    _, trouble = re.split(r"^## When something (?:goes|is) wrong$", text, flags=re.MULTILINE)
    quoted = re.findall(r"^\| `([^`]+)` \|", trouble, re.MULTILINE)
    parts = [part.strip() for each in quoted for part in each.split("…") if part.strip()]

    assert [part for part in parts if part not in spoken()] == []
    assert len(quoted) >= 5


@table(("cell", "word"), RULES)
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


@table("path", [Path("README.md"), *PAGES])
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


def test_every_page_stands_in_the_navigation_of_the_site() -> None:
    """A page that no list names is found by nobody; `make docs` says so too, by hand."""
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {
        each.relative_to(ROOT / "docs").as_posix()
        for folder in ("docs", "docs/plugins", "docs/tutorials")
        for each in (ROOT / folder).glob("*.md")
    }

    assert pages - listed == set()
    assert {each for each in listed if not each.startswith("project/")} - pages == set()
