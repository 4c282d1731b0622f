"""What a person does in Open WebUI, in a real browser. Run by `open_webui.py`, in its environment.

PAGE (the address of Open WebUI) and GATEWAY (that of the gateway) are in the environment, and where
a picture of a fault goes (PICTURE). Prints a line of JSON for each thing that was tried.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from playwright.sync_api import Page, sync_playwright

PAGE, GATEWAY = os.environ["PAGE"], os.environ["GATEWAY"]
NAMED = "--named" in sys.argv
WAIT_S = 60
ANN = {"name": "Ann", "email": "ann@example.org", "password": "correct horse battery"}
# A closed network makes Chromium try many things at its start; none of them is wanted here.
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
ANSWERS = ".chat-assistant"
INPUT = "#chat-input"


def until(what: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if what():
            return
        time.sleep(0.2)
    raise AssertionError("it did not come")


class Person:
    """Somebody with a browser, who looks behind the page, too."""

    def __init__(self, page: Page) -> None:
        """Take a page that shows nothing yet."""
        self.page = page
        news = page.get_by_text("Okay, Let's Go!")  # below what is new; it comes when it likes
        page.add_locator_handler(news, lambda found: found.click())
        signed_up = page.request.post(f"{PAGE}/api/v1/auths/signup", data=ANN)
        self._headers = {"Authorization": f"Bearer {signed_up.json()['token']}"}

    def chats(self) -> list[dict[str, Any]]:
        """Return the chats that the page keeps."""
        listed = self.page.request.get(f"{PAGE}/api/v1/chats/?page=1", headers=self._headers)
        found: list[dict[str, Any]] = listed.json()
        return found

    def tags(self) -> list[object]:
        """Return the tags of the newest chat."""
        address = f"{PAGE}/api/v1/chats/{self.chats()[0]['id']}/tags"
        found: list[object] = self.page.request.get(address, headers=self._headers).json()
        return found

    def sessions(self) -> list[dict[str, Any]]:
        """Return the gateway's sessions, newest first."""
        listed = self.page.request.get(f"{GATEWAY}/api/v1/sessions")
        found: list[dict[str, Any]] = listed.json()["sessions"]
        return found

    def messages(self, number: int = 0) -> list[str]:
        """Return what was said in a session, the newest by default."""
        session_id = self.sessions()[number]["id"]
        listed = self.page.request.get(f"{GATEWAY}/api/v1/sessions/{session_id}/messages")
        return [each["content"] for each in listed.json()["messages"]]

    def answers(self) -> list[str]:
        """Return the answers that are shown."""
        shown: list[str] = self.page.locator(ANSWERS).all_inner_texts()
        return shown

    def is_kept(self, messages: int) -> bool:
        """Whether the gateway has so many messages in one session, where chats are named."""
        if not NAMED:
            return not self.sessions()
        return len(self.sessions()) == 1 and len(self.messages()) == messages

    # --- what people do ---

    def logs_in(self) -> None:
        """Type name and password."""
        self.page.goto(f"{PAGE}/auth")
        self.page.locator("input[type=email]").fill(ANN["email"])
        self.page.locator("input[type=password]").fill(ANN["password"])
        self.page.locator("button[type=submit]").click()
        self.page.locator(INPUT).wait_for(timeout=WAIT_S * 1000)

    def says(self, text: str, answer: str, number: int = 1) -> None:
        """Type a message, and wait until its answer is shown."""
        self.page.locator(INPUT).click()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")
        until(lambda: len(self.answers()) >= number and answer in self.answers()[-1])

    def begins(self) -> None:
        """Say the first message of a chat."""
        self.says("Does it rain?", "It rains in Bonn.")

    def sees_the_title(self) -> None:
        """Wait for title and tags, which the page has a model write."""
        until(lambda: any(chat["title"] == "A Rainy Day" for chat in self.chats()))
        self.page.get_by_text("A Rainy Day").first.wait_for(timeout=WAIT_S * 1000)
        until(self.tags)
        until(lambda: self.is_kept(2))

    def goes_on(self) -> None:
        """Say something else in the same chat."""
        self.says("And now?", "It rains in Bonn. (2)", 2)
        until(lambda: self.is_kept(4))

    def loads_the_page_again(self) -> None:
        """Go on in a page that was loaded anew."""
        self.page.reload()
        until(lambda: len(self.answers()) == 2)
        self.says("And later?", "It rains in Bonn. (3)", 3)
        until(lambda: self.is_kept(6))

    def has_an_answer_made_anew(self) -> None:
        """Have the newest answer made anew, and go on behind it."""
        self.page.locator(ANSWERS).last.hover()
        self.page.get_by_role("button", name="Regenerate").last.click()
        again = self.page.get_by_text("Try Again")
        self.page.wait_for_timeout(1000)  # some versions ask how
        if again.count():
            again.first.click()
        until(lambda: self.page.get_by_text("2/2").count())
        until(lambda: "It rains in Bonn. (3)" in self.answers()[-1])
        self.says("Thanks.", "It rains in Bonn. (4)", 4)
        if NAMED:
            until(lambda: len(self.sessions()) == 2 and len(self.messages()) == 8)
            before = self.sessions()[1]
            assert before["status"] == "ended", before


def main() -> None:
    """Try one thing after the other; what follows a fault is not tried."""
    failed = False
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=shutil.which("chromium"), args=QUIET, locale="en-US"
        )
        page = browser.pages[0] if browser.pages else browser.new_page()
        page.set_default_timeout(WAIT_S * 1000)
        person = Person(page)
        tries: tuple[tuple[str, Callable[[], None]], ...] = (
            ("login", person.logs_in),
            ("a streamed answer", person.begins),
            ("title and tags", person.sees_the_title),
            ("the next message", person.goes_on),
            ("after a reload", person.loads_the_page_again),
            ("an answer made anew", person.has_an_answer_made_anew),
        )
        for what, body in tries:
            fault = "not tried" if failed else None
            if not failed:
                try:
                    body()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
                    failed, fault = True, f"{type(error).__name__}: {error}"[:300]
                    traceback.print_exc()
                    if picture := os.environ.get("PICTURE"):
                        page.screenshot(path=picture)
            row = {"client": "open-webui", "version": version("open-webui"), "what": what}
            print(json.dumps({**row, "fault": fault}), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
