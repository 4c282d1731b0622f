"""The browser sessions of a gateway: one for each conversation that uses one, closed when idle."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, field

from everturn_actors.errors import ToolFailedError
from everturn_actors.ports import Clock
from everturn_gateway.tools.browser.launching import INSTALL, find_chromium, launch, prepare
from everturn_gateway.tools.browser.proxy import CheckedProxy
from everturn_gateway.tools.web.addresses import Allowed
from everturn_gateway.tools.web.reaching import Reaching, Resolve, resolve

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Dialog, Page

logger = logging.getLogger(__name__)

SESSIONS_MOST: Final = 8  # open at a time; whoever used his longest ago gives way
TABS_MOST: Final = 5
IDLE_S: Final = 600.0
_LOOK_S: Final = 60.0
_DIALOG_CHARACTERS: Final = 200
VIEWPORT: Final = {"width": 1280, "height": 800}


class BrowserRules(Struct, frozen=True, kw_only=True):
    """What the agent's owner says of its browser."""

    allowed: Allowed
    executable: str = ""


class BrowserSession(Struct, kw_only=True):
    """The pages of one conversation."""

    context: BrowserContext
    proxy: CheckedProxy
    scope: anyio.CancelScope
    used_at: datetime
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    pages: list[Page] = field(default_factory=list)
    "The tabs, the oldest first."
    current: int = 0
    notes: list[str] = field(default_factory=list[str])
    "What happened that the model should know."

    def take_notes(self) -> tuple[str, ...]:
        """Return what happened since this was asked last."""
        notes = (*self.notes, *self.proxy.take_refused())
        self.notes.clear()
        return notes


class Browsers:
    """All of them; `opening.BrowserPlace` makes them, and stops them."""

    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Clock,
        tasks: TaskGroup,
        find: Resolve | None = None,
    ) -> None:
        """Open none yet; what goes on beside calls runs in `tasks`, names are found by `find`."""
        self._environ, self._clock, self._tasks = environ, clock, tasks
        self._find = find or resolve
        self._sessions: dict[str, BrowserSession] = {}
        self._lock = anyio.Lock()
        self._life: AsyncExitStack | None = None
        self._browser: Browser | None = None
        self._is_watched = False

    def known(self, session_id: str) -> BrowserSession | None:
        """Return the browser of a conversation; None where it has none open."""
        found = self._sessions.get(session_id)
        if found is not None:
            found.used_at = self._clock.now()
        return found

    async def session(self, session_id: str, wanted: BrowserRules) -> BrowserSession:
        """Return the browser of a conversation; it is opened where it is not.

        Raises:
            ToolFailedError: There is none on this machine, or it does not start.
        """
        async with self._lock:
            found = self.known(session_id)
            if found is not None:
                return found
            while len(self._sessions) >= SESSIONS_MOST:
                oldest = min(self._sessions, key=lambda each: self._sessions[each].used_at)
                await self._close(oldest)
            browser = await self._running(wanted)
            session = await self._opened(browser, wanted)
            self._sessions[session_id] = session
            if not self._is_watched:
                self._is_watched = True
                self._tasks.start_soon(self._watch)
            return session

    async def close(self, session_id: str) -> bool:
        """Close the browser of a conversation; return whether there was one."""
        async with self._lock:
            return await self._close(session_id)

    async def _watch(self) -> None:
        """Close what nobody uses any more, for as long as there is something."""
        while self._sessions:
            await self._clock.sleep(_LOOK_S)
            await self.close_idle()
        self._is_watched = False

    async def close_idle(self) -> None:
        """Close the browsers that nobody used for long."""
        before = self._clock.now() - timedelta(seconds=IDLE_S)
        async with self._lock:
            for each in [n for n, s in self._sessions.items() if s.used_at < before]:
                await self._close(each)

    async def stop(self) -> None:
        """Close all of them."""
        async with self._lock:
            for each in [*self._sessions]:
                await self._close(each)
            await self._end()

    async def _running(self, wanted: BrowserRules) -> Browser:
        if self._browser is not None and self._browser.is_connected():
            return self._browser
        await self._end()
        if await anyio.to_thread.run_sync(find_spec, "playwright") is None:
            msg = f"no browser can be driven here; the agent's owner has to install: {INSTALL}"
            raise ToolFailedError(msg)
        chromium = await anyio.to_thread.run_sync(find_chromium, self._environ, wanted.executable)
        if not chromium:
            msg = "there is no Chromium on this machine; its owner can install one"
            raise ToolFailedError(msg)
        library = await anyio.to_thread.run_sync(_library)
        life = AsyncExitStack()
        try:
            scratch = await anyio.to_thread.run_sync(
                lambda: tempfile.TemporaryDirectory(prefix="everturn-browser-")
            )
            life.push_async_callback(anyio.to_thread.run_sync, scratch.cleanup)
            command, own_sandbox = await anyio.to_thread.run_sync(
                prepare, Path(scratch.name), chromium, self._environ
            )
            playwright = await life.enter_async_context(library.async_playwright())
            self._browser = await launch(
                playwright, command, self._environ, own_sandbox=own_sandbox
            )
            life.push_async_callback(self._browser.close)
        except library.Error as error:
            await life.aclose()
            logger.warning("a browser did not start", extra={"error": str(error)[:2000]})
            msg = "the browser does not start here; the gateway's log says why"
            raise ToolFailedError(msg) from error
        except BaseException:
            with anyio.CancelScope(shield=True):
                await life.aclose()
            raise
        self._life = life
        return self._browser

    async def _opened(self, browser: Browser, wanted: BrowserRules) -> BrowserSession:
        proxy, scope = CheckedProxy(Reaching(wanted.allowed, self._find)), anyio.CancelScope()

        async def serve(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            with scope:
                await proxy.serve(task_status=task_status)

        await self._tasks.start(serve)
        try:
            context = await browser.new_context(
                accept_downloads=False,
                service_workers="block",
                viewport={"width": VIEWPORT["width"], "height": VIEWPORT["height"]},
                proxy={
                    "server": f"http://127.0.0.1:{proxy.port}",
                    "bypass": "<-loopback>",
                    "username": proxy.user,
                    "password": proxy.password,
                },
            )
        except BaseException:
            scope.cancel()
            raise
        session = BrowserSession(
            context=context, proxy=proxy, scope=scope, used_at=self._clock.now()
        )
        context.on("page", lambda page: take_in(session, page))
        return session

    async def _close(self, session_id: str) -> bool:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        session.scope.cancel()
        with suppress(Exception):  # it may be gone already
            await session.context.close()
        if not self._sessions:
            await self._end()
        return True

    async def _end(self) -> None:
        life, self._life, self._browser = self._life, None, None
        if life is not None:
            with suppress(Exception):
                await life.aclose()


def _library() -> ModuleType:
    """Load what drives browsers; it takes a third of a second, and few agents have one."""
    return import_module("playwright.async_api")


async def take_in(session: BrowserSession, page: Page) -> None:
    """Take a new tab in, beside the one that is looked at; one too many is closed."""
    if page in session.pages:
        return
    if len(session.pages) >= TABS_MOST:
        session.notes.append(f"a new tab was closed: {TABS_MOST} are open")
        await page.close()
        return
    session.pages.append(page)
    if len(session.pages) > 1:
        session.notes.append(f"a new tab was opened: tab {len(session.pages)}")
    page.on("close", lambda _: _take_out(session, page))
    page.on("dialog", lambda dialog: _dismiss(session, dialog))


async def _dismiss(session: BrowserSession, dialog: Dialog) -> None:
    session.notes.append(f"the page asked, and was told no: {dialog.message[:_DIALOG_CHARACTERS]}")
    await dialog.dismiss()


def _take_out(session: BrowserSession, page: Page) -> None:
    if page not in session.pages:
        return
    index = session.pages.index(page)
    session.pages.remove(page)
    if session.current > index or session.current == len(session.pages):
        session.current = max(session.current - 1, 0)
