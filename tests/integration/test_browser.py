"""An agent uses a real browser against sites on loopback.

Needs a Chromium on the machine (Debian: `apt-get install chromium`, as root also `bubblewrap`); the
tests that need none run everywhere.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import psutil
import pytest
from msgspec.structs import replace
from support.patience import WAIT_S
from support.sites import Site, needs_chromium, open_site
from support.tables import table
from support.tool_environments import call_tool, tool_context

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall
from everturn_actors.ports import Tool, ToolOutput
from everturn_actors.state.validation import sniffed
from everturn_actors.testing import ManualClock
from everturn_gateway.tools.browser import browsers as browsers_module
from everturn_gateway.tools.browser.browsers import IDLE_S, BrowserRules, Browsers
from everturn_gateway.tools.browser.opening import open_browser_place
from everturn_gateway.tools.browser.proxy import CheckedProxy
from everturn_gateway.tools.browser.tool import BrowserTool
from everturn_gateway.tools.web.addresses import Allowed
from everturn_gateway.tools.web.reaching import Reaching

OWN: Final = "site.test"
"The one name that the agent's owner allows though it leads to this machine."
OTHER: Final = "other.test"


def names(found: Mapping[str, Sequence[str]] | None = None) -> Any:
    """Return a resolver under which all names lead to this machine, but for these."""

    async def find(host: str, _port: int) -> Sequence[str]:
        await anyio.lowlevel.checkpoint()
        return (found or {}).get(host, ("127.0.0.1",))

    return find


@asynccontextmanager
async def browsing(
    clock: ManualClock | None = None, *, allowed: tuple[str, ...] = (OWN,)
) -> AsyncGenerator[tuple[Site, Tool, Browsers]]:
    """Open a site, and a tool that may go to it under the name `OWN`."""
    async with (
        open_site() as site,
        open_browser_place(os.environ, clock or ManualClock(), find=names()) as place,
    ):
        wanted = BrowserRules(allowed=Allowed(hosts=frozenset(allowed)))
        yield site, BrowserTool(place, wanted), await place.browsers()


async def do(tool: Tool, action: str, *, session: str = "", **more: object) -> ToolOutput:
    """Make a call, in a conversation of this name."""
    context = tool_context()
    if session:
        context = replace(context, session_id=session)
    return await call_tool(tool, {"action": action, **more}, context=context)


def ref(output: ToolOutput, what: str) -> str:
    """Return what the text of a page calls an element."""
    found = re.search(rf"{re.escape(what)}.*?\[ref=(\w+)\]", output.text)
    assert found, output.text
    return found[1]


@needs_chromium
async def test_a_page_is_read_and_acted_on() -> None:
    """What a person does with a form, by the names that the text gives to its elements."""
    form = """<title>Shop</title><h1>Order</h1><label>Name <input></label>
        <button onclick="document.querySelector('h1').textContent =
            'Thank you, ' + document.querySelector('input').value">Send</button>
        <a href="/next">Terms</a>"""
    async with browsing() as (site, tool, _):
        site.pages |= {"/": form, "/next": "<h1>The terms</h1>"}
        opened = await do(tool, "open", url=site.url(OWN))
        await do(tool, "type", ref=ref(opened, 'textbox "Name"'), text="Ada")
        sent = await do(tool, "click", ref=ref(opened, 'button "Send"'))
        followed = await do(tool, "click", ref=ref(sent, 'link "Terms"'))
        back = await do(tool, "back")
        picture = await do(tool, "screenshot")
        gone = await do(tool, "click", ref="e999")
        closed = await do(tool, "close")
        with pytest.raises(ToolFailedError, match="no page is open"):
            await do(tool, "read")

    assert f"Title: Shop\nAddress: {site.url(OWN)}" in opened.text
    assert opened.untrusted
    assert opened.source == f"the page {site.url(OWN)}"
    assert "Thank you, Ada" in sent.text
    assert "The terms" in followed.text
    assert 'heading "Order"' in back.text
    assert sniffed(picture.images[0].data) == "image/jpeg"
    assert gone.is_error
    assert "no element e999" in gone.text
    assert closed.text == "closed"


@needs_chromium
async def test_nothing_of_a_page_reaches_what_is_closed() -> None:
    """A page that anybody wrote must not look at this machine or its network, in no way."""
    async with browsing() as (site, tool, _):
        evil, direct = site.url(OTHER), f"http://127.0.0.1:{site.port}"
        site.redirects["/away"] = f"{evil}/redirected"
        site.pages["/"] = f"""<h1>Hello</h1><img src="{evil}/img"><iframe src="{evil}/frame">
            </iframe><script src="{evil}/script"></script><link rel=stylesheet href="{evil}/css">
            <link rel=prefetch href="{evil}/prefetch"><img src="{direct}/direct">
            <img src="http://localhost:{site.port}/localhost"><img src="/away">
            <script>
              navigator.sendBeacon("{evil}/beacon");
              const done = [fetch("{evil}/fetch", {{mode: "no-cors"}}),
                new Promise(r => {{ const s = new WebSocket("ws://{OTHER}:{site.port}/ws");
                  s.onopen = () => r("open"); s.onerror = () => r("error"); }}),
                new Promise(r => {{ const s = new WebSocket("ws://{OWN}:{site.port}/ws");
                  s.onopen = () => s.send("hi"); s.onmessage = m => r(m.data);
                  s.onerror = () => r("error"); }})];
              Promise.allSettled(done).then(all => document.querySelector("h1").textContent =
                all.slice(1).map(one => one.value).join(", "));
            </script>"""
        await do(tool, "open", url=site.url(OWN))
        with anyio.fail_after(120):
            while "echo hi" not in (shown := await do(tool, "read")).text:
                await anyio.lowlevel.checkpoint()
        opened = await do(tool, "open", url=f"{evil}/direct")
        literal = await do(tool, "open", url=f"{direct}/direct")
        redirected = await do(tool, "open", url=site.url(OWN, "/away"))
        with pytest.raises(ToolFailedError, match="https:// or http://"):
            await do(tool, "open", url="file:///etc/passwd")

    assert 'heading "error, echo hi"' in shown.text
    assert site.hosts() == {OWN}
    for refused, host in ((opened, OTHER), (literal, "127.0.0.1"), (redirected, OTHER)):
        assert refused.is_error
        assert f"{host}" in refused.text
        assert "is not on the public Internet" in refused.text


@needs_chromium
async def test_what_a_conversation_opens_is_bounded_its_own_and_closed() -> None:
    """A page that opens a hundred tabs, or asks for ever, must not stop the agent.

    A person's cookies are nobody else's, and memory is not held for who went away.
    """
    clock = ManualClock()
    tabs = """<script>for (let n = 0; n < 9; n++) window.open("/tab" + n);</script>
        <button onclick="alert('Really?'); for (let n = 0; n < 9; n++) window.open('/tab')">
        Go</button>"""
    cookies = """<h1></h1><script>const h = document.querySelector("h1");
        h.textContent = document.cookie || "none"; document.cookie = "a=1"</script>"""
    async with browsing(clock) as (site, tool, browsers):
        site.pages |= {"/": cookies, "/tabs": tabs, "/tab": "<h1>A tab</h1>"}
        opened = await do(tool, "open", url=site.url(OWN, "/tabs"))
        clicked = await do(tool, "click", ref=ref(opened, 'button "Go"'))
        second = await do(tool, "tab", tab=2)
        first = await do(tool, "tab", tab=1)
        session = browsers.known(tool_context().session_id)
        assert session is not None
        count = len(session.pages)

        await do(tool, "open", url=site.url(OWN), session="ann")
        own = await do(tool, "open", url=site.url(OWN), session="ann")
        other = await do(tool, "open", url=site.url(OWN), session="bob")
        clock.advance(IDLE_S - 1)
        browsers.known("bob")
        clock.advance(2)
        await browsers.close_idle()
        left = [name for name in ("ann", "bob") if browsers.known(name)]

    assert count <= browsers_module.TABS_MOST
    assert "Really?" in clicked.text + second.text + first.text
    assert "a new tab was opened: tab 2" in opened.text + clicked.text
    assert 'button "Go"' in first.text
    assert 'heading "a=1"' in own.text
    assert 'heading "none"' in other.text
    assert left == ["bob"]


@needs_chromium
async def test_no_process_is_left_when_the_gateway_is_killed(tmp_path: Path) -> None:
    """A browser takes hundreds of megabytes; after a kill nobody would end it."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, os
            from everturn_gateway.clock import SystemClock
            from everturn_gateway.tools.browser.browsers import BrowserRules
            from everturn_gateway.tools.browser.opening import open_browser_place
            from everturn_gateway.tools.web.addresses import Allowed

            async def main():
                async with open_browser_place(os.environ, SystemClock()) as place:
                    browsers, rules = await place.browsers(), BrowserRules(allowed=Allowed())
                    session = await browsers.session("s", rules)
                    await session.context.new_page()
                    print("open", flush=True)
                    await asyncio.sleep(600)

            asyncio.run(main())
            """
        )
    )
    command = [sys.executable, str(program)]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        with anyio.fail_after(WAIT_S):
            assert b"open" in await process.stdout.receive()
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        _, left = await anyio.to_thread.run_sync(lambda: psutil.wait_procs(children, timeout=30))

    assert len(children) > 1, "what drives the browser, and the browser"
    assert left == []


# --- without a browser ---


async def through(proxy: CheckedProxy, head: str, *, known: bool = True) -> bytes:
    """Send a request to a proxy; return all that comes."""
    word = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
    lines = [head, *([f"Proxy-Authorization: Basic {word}"] if known else []), "", ""]
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        await stream.send("\r\n".join(lines).encode())
        data = b""
        with suppress(anyio.EndOfStream):
            while True:
                data += await stream.receive()
        return data


@asynccontextmanager
async def proxying(find: Any, *allowed: str) -> AsyncGenerator[CheckedProxy]:
    """Run a proxy that reaches these names of this machine."""
    proxy = CheckedProxy(Reaching(Allowed(hosts=frozenset(allowed)), find))
    async with anyio.create_task_group() as tasks:
        await tasks.start(proxy.serve)
        yield proxy
        tasks.cancel_scope.cancel()


async def test_the_proxy_passes_on_for_its_browser_alone() -> None:
    """Others on this machine must not use what the owner allows the agent alone."""
    async with open_site() as site, proxying(names(), OWN) as proxy:
        site.pages["/a"] = "<h1>Hi</h1>"
        head = f"GET {site.url(OWN, '/a?b=1')} HTTP/1.1\r\nHost: {OWN}:{site.port}"
        stranger = await through(proxy, head, known=False)
        answer = await through(proxy, head)
        odd = [
            await through(proxy, f"GET {target} HTTP/1.1\r\nHost: x")
            for target in ("/a", "ftp://x/", f"http://u:p@{OWN}:{site.port}/", "http://[::1/")
        ]
        asked = [path for _, path in site.asked]

    assert stranger.startswith(b"HTTP/1.1 407 ")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"<h1>Hi</h1>" in answer
    assert all(each.startswith(b"HTTP/1.1 400 ") for each in odd)
    assert asked == ["/a?b=1"]


async def test_each_connection_goes_to_the_address_that_was_checked_for_it() -> None:
    """A name that leads to the Internet once and to this machine later gains nothing."""
    turns = iter([("127.0.0.1",), ("169.254.169.254",), ("127.0.0.1", "10.0.0.1")])

    async def find(_host: str, _port: int) -> Sequence[str]:
        await anyio.lowlevel.checkpoint()
        return next(turns)

    async with open_site() as site, proxying(find, "rebind.test") as proxy:
        site.pages["/"] = "<h1>Hi</h1>"
        url = site.url("rebind.test")
        head = f"GET {url} HTTP/1.1\r\nHost: rebind.test"
        first = await through(proxy, head)
        metadata = await through(proxy, head)
        tunnel = f"CONNECT other.test:{site.port} HTTP/1.1\r\nHost: other.test"
        mixed = await through(proxy, tunnel)
        why = proxy.take_refused()

    assert b"<h1>Hi</h1>" in first
    assert metadata.startswith(b"HTTP/1.1 403 ")
    assert mixed.startswith(b"HTTP/1.1 403 ")
    assert ["link-local" in why[0], "other.test" in why[1]] == [True, True]
    assert proxy.take_refused() == ()


@table(
    ("arguments", "is_read", "is_safe"),
    [
        ('{"action": "read"}', True, True),
        ('{"action": "screenshot"}', True, True),
        ('{"action": "open", "url": "https://a.example"}', True, False),
        ('{"action": "click", "ref": "e1"}', False, False),
        ('{"action": "type", "ref": "e1", "text": "x"}', False, False),
        ('{"action": "press", "key": "Enter"}', False, False),
        ('{"action": "back"}', False, False),
        ("nonsense", False, False),
    ],
)
async def test_to_look_asks_nobody_and_to_act_does(
    arguments: str, is_read: bool, is_safe: bool
) -> None:
    """A page is read freely; a click may buy something, so a person or the policy allows it."""
    async with open_browser_place({}, ManualClock()) as place:
        tool = BrowserTool(place, BrowserRules(allowed=Allowed()))
        call = ToolCall(call_id="c", name="browser", arguments=arguments)
        found = tool.capabilities_of(call)

    assert (found.read_only, found.safe) == (is_read, is_safe)


async def test_without_a_browser_the_call_says_so(tmp_path: Path) -> None:
    """The model can do it another way, and its owner learns what to install."""
    async with open_browser_place({"PATH": str(tmp_path)}, ManualClock()) as place:
        tool = BrowserTool(place, BrowserRules(allowed=Allowed()))
        with pytest.raises(ToolFailedError, match="no Chromium on this machine"):
            await do(tool, "open", url="https://a.example")
        with pytest.raises(ToolFailedError, match="url: open needs it"):
            await do(tool, "open")
