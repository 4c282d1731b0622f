"""Random people, sessions, gifts and requests: nobody ever gets to see what is not theirs.

The gateway is real and listens; beside it stands a model of a few lines that knows who may see
what.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.to_thread
import httpx2
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.gateway import HttpGateway, open_http_gateway, write_agent

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access.scopes import RULES
from everturn_gateway.principals import Principal, Scope

API: Final = "api-token-of-the-configuration"
SESSIONS: Final = "/api/v1/sessions"
AGENTS: Final = ("test", "other")
PEOPLE: Final = {
    each.name: each
    for each in (
        Principal(name="alice", scopes=frozenset[Scope](("talk", "approve"))),
        Principal(name="bob", scopes=frozenset[Scope](("talk",))),
        Principal(name="carol", scopes=frozenset[Scope](("talk",)), agents=frozenset(("test",))),
        Principal(name="rita", scopes=frozenset[Scope](("read",))),
        Principal(name="ops", scopes=frozenset[Scope](("operate",)), agents=frozenset(("other",))),
    )
}
# What a random request may do without changing whose a session is, or waiting for ever.
ROUTES: Final = tuple(
    (method, path)
    for (method, path), rule in RULES.items()
    if rule.session and path.rpartition("/")[2] not in {"events", "stream", "reset", "{principal}"}
    if method != "DELETE"
)
ACTION = st.one_of(
    st.tuples(st.just("begin"), st.sampled_from(sorted(PEOPLE)), st.sampled_from(AGENTS)),
    st.tuples(st.just("name"), st.sampled_from(sorted(PEOPLE)), st.sampled_from("xy")),
    st.tuples(st.just("chat"), st.sampled_from(sorted(PEOPLE)), st.sampled_from("xy")),
    st.tuples(
        st.sampled_from(("give", "take")), st.sampled_from(sorted(PEOPLE)), st.integers(0, 9)
    ),
    st.tuples(st.just("ask"), st.sampled_from(ROUTES), st.integers(0, 9)),
    st.tuples(st.just("ask"), st.sampled_from(ROUTES), st.integers(0, 9)),
)
Action: TypeAlias = tuple[str, object, object]


@dataclass(slots=True)
class Known:
    """What the model knows of a session."""

    session_id: str
    agent: str
    began_by: str
    shared_with: set[str] = field(default_factory=set[str])
    secret: str = ""

    def is_for(self, principal: Principal) -> bool:
        """Return whether a principal may see it: the rule, written once more."""
        if principal.agents is not None and self.agent not in principal.agents:
            return False
        own = principal.name == self.began_by or principal.name in self.shared_with
        return own or "operate" in principal.scopes


@dataclass(slots=True)
class World:
    """A gateway, a client of each, and what is known of its sessions."""

    clients: dict[str, httpx2.Client]
    owner: httpx2.Client
    sessions: list[Known] = field(default_factory=list[Known])

    def do(self, action: Action) -> None:
        """Do one thing, and hold its answer against the model."""
        match action:
            case ("begin", str() as who, str() as agent):
                self.note(who, agent, self.clients[who].post(SESSIONS, json={"agent": agent}))
            case ("name", str() as who, str() as name):
                body = {"agent": "test", "chat": name}
                self.note(who, "test", self.clients[who].post(SESSIONS, json=body))
            case ("chat", str() as who, str() as name):
                said = [{"role": "user", "content": f"the secret of {who}"}]
                asked = {"model": "test", "user": name, "messages": said}
                answer = self.clients[who].post("/v1/chat/completions", json=asked)
                found = answer.headers.get("x-everturn-session", "")
                self.known(who, "test", found, answer.status_code == 200)
            case ("give" | "take" as word, str() as who, int() as number) if self.sessions:
                self.share(self.sessions[number % len(self.sessions)], who, word)
            case ("ask", (str() as method, str() as path), int() as number) if self.sessions:
                self.ask(method, path, self.sessions[number % len(self.sessions)])
            case _:
                pass

    def note(self, who: str, agent: str, answer: httpx2.Response) -> None:
        """Take note of a session that somebody asked for."""
        found = answer.json().get("id", "") if answer.is_success else ""
        self.known(who, agent, found, answer.is_success)

    def known(self, who: str, agent: str, session_id: str, was_taken: bool) -> None:
        principal = PEOPLE[who]
        may = principal.may("talk") and principal.knows_agent(agent)
        assert was_taken == may, (who, agent)
        if not session_id:
            return
        before = next((each for each in self.sessions if each.session_id == session_id), None)
        if before is None:
            secret = f"the secret of {who}"
            self.sessions.append(Known(session_id, agent, who, secret=secret))
        else:  # a name leads to one's own session alone, or to one that all who operate share
            operates = "operate" in principal.scopes
            assert before.began_by == who or operates

    def share(self, known: Known, to: str, word: str) -> None:
        """Give a session to somebody, or take it back, as everybody in turn tries to."""
        path = f"{SESSIONS}/{known.session_id}/shares/{to}"
        method = "PUT" if word == "give" else "DELETE"
        for who, principal in PEOPLE.items():
            answer = self.clients[who].request(method, path)
            may = known.is_for(principal) and (
                who == known.began_by or "operate" in principal.scopes
            )
            expected = (
                403
                if not principal.may("talk")
                else 404
                if not known.is_for(principal)
                else 200
                if may
                else 403
            )
            assert answer.status_code == expected, (who, known, answer.text)
            if expected == 200 and word == "give":
                known.shared_with.add(to)
            elif expected == 200:
                known.shared_with.discard(to)

    def ask(self, method: str, template: str, known: Known) -> None:
        """Ask something of a session as everybody: there for whom it is, and for nobody else."""
        rule = RULES[method, template]
        path = template.format(session_id=known.session_id, name="x", seq=1, topic="x")
        missing = known.session_id[:-8] + "00000000"
        for who, principal in PEOPLE.items():
            answer = self.clients[who].request(method, path, json={})
            assert rule.need != "open"
            if not principal.may(rule.need):
                assert answer.status_code == 403, (who, template)
            elif not known.is_for(principal):
                other = self.clients[who].request(
                    method, path.replace(known.session_id, missing), json={}
                )
                assert answer.status_code == other.status_code == 404, (who, template, known)
                assert answer.text.replace(known.session_id, missing) == other.text
            else:
                assert "unknown-session" not in answer.text, (who, template, known)
            if not known.is_for(principal):
                assert known.secret not in answer.text

    def check(self) -> None:
        """What each is shown of all sessions is what is theirs, whatever happened."""
        for who, principal in PEOPLE.items():
            shown = set(self.listed(self.clients[who]))
            own = {each.session_id for each in self.sessions if each.is_for(principal)}
            assert shown == own, who
        everything = {each.session_id for each in self.sessions}
        assert everything <= set(self.listed(self.owner))

    def listed(self, client: httpx2.Client) -> Iterator[str]:
        """Yield the ids of a list, page by page."""
        after: str | None = ""
        while after is not None:
            page = client.get(SESSIONS, params={"limit": 3, "after": after}).json()
            yield from (row["id"] for row in page["sessions"])
            after = page["next"]


async def test_nobody_ever_sees_what_is_not_theirs(tmp_path: Path) -> None:
    """Whatever people begin, name, give and take back, and whichever route is asked."""
    await anyio.to_thread.run_sync(lambda: write_agent(tmp_path / "agents", name="other"))
    server = ServerConfig(api_token=API)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        tokens = {
            name: await gateway.token(name, *each.scopes, agents=tuple(each.agents or ()))
            for name, each in PEOPLE.items()
        }
        await anyio.to_thread.run_sync(lambda: _try_all(gateway, tokens))


def _try_all(gateway: HttpGateway, tokens: dict[str, str]) -> None:
    with ExitStack() as stack:

        def client(token: str) -> httpx2.Client:
            headers = {"Authorization": f"Bearer {token}"}
            return stack.enter_context(
                httpx2.Client(base_url=gateway.base_url, headers=headers, timeout=30)
            )

        world = World({name: client(token) for name, token in tokens.items()}, client(API))

        # One world for all examples: what earlier ones left behind makes the later ones richer.
        @examples(12)
        @given(st.lists(ACTION, min_size=1, max_size=6))
        def attempts(actions: list[Action]) -> None:
            for action in actions:
                world.do(action)
            world.check()

        attempts()
