"""The console's files and its login, as a browser, and whoever means ill, would ask for them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import httpx2
from support.gateway import open_http_gateway

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access.scopes import RULES
from everturn_gateway.http.console import pages
from everturn_gateway.principals import Logins
from everturn_gateway.principals.logins import LINK_S, LOGIN_S, LOGINS_MAX
from everturn_gateway.principals.values import Principal

TOKEN = "t" * 40
SESSIONS = "/api/v1/sessions"
STATIC = Path(pages.__file__).resolve().with_name("static")
LIT = "vendor/lit-html/lit-html.js"
SAME = {"Sec-Fetch-Site": "same-origin"}


async def log_in(client: httpx2.AsyncClient, token: str = TOKEN) -> str:
    """Log in; return the cookie as it is sent back."""
    bearer = {"Authorization": f"Bearer {token}"}
    answer = await client.post("/console/login", headers={**bearer, **SAME})
    assert answer.status_code == 204, answer.text
    client.cookies.clear()  # each request of a test says itself what it sends
    return answer.headers["set-cookie"].partition(";")[0]


# --- the files ---


async def test_the_page_comes_with_what_keeps_others_out(tmp_path: Path) -> None:
    """Nothing but its own files runs in it, and it stands in no other page."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        root = await client.get("/")
        page = await client.get("/console/")
        script = await client.get("/console/app.js", headers={"Accept-Encoding": "gzip"})
        again = await client.get(
            "/console/app.js", headers={"If-None-Match": script.headers["etag"]}
        )
        plain = await client.get("/console/app.js", headers={"Accept-Encoding": "identity"})
        theirs = await client.get(f"/console/{LIT}")
        head = await client.head("/console/console.css")
        missing = [
            await client.get(f"/console/{path}")
            for path in ("nothing.js", "../pages.py", "%2e%2e/pages.py", "vendor")
        ]

    assert (root.status_code, root.headers["location"]) == (307, "/console/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cross-origin-resource-policy"] == "same-origin"
    assert script.headers["content-encoding"] == "gzip"
    assert script.headers["content-type"].startswith("text/javascript")
    assert (again.status_code, again.content) == (304, b"")
    source = (STATIC / "app.js").read_text().splitlines()
    assert plain.content == script.content
    assert plain.text.splitlines() == [
        "" if line.lstrip().startswith("//") else line for line in source
    ]
    assert theirs.content == (STATIC / LIT).read_bytes()
    assert (head.status_code, head.content) == (200, b"")
    assert {answer.status_code for answer in missing} == {404}


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Who does not want a page has none, and no login either."""
    server = ServerConfig(console=False)
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        answers = [
            (await client.get(path)).status_code for path in ("/", "/console", "/console/app.js")
        ]
        login = (await client.post("/console/login")).status_code

    assert (answers, login) == ([404, 404, 404], 404)


def test_what_others_wrote_is_as_they_published_it() -> None:
    """Byte for byte the files of the package: who doubts it compares them."""
    vendor = STATIC / "vendor" / "lit-html"
    lines = (vendor / "SHA256SUMS").read_text().splitlines()
    told = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {
        path.relative_to(vendor).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendor.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }

    assert found == told


def _reached(file: Path, found: set[Path]) -> set[Path]:
    """Return a module with all that it imports before it runs."""
    if file not in found:
        found.add(file)
        for name in re.findall(r'\b(?:import|export)\b[^;"(]*"(\.[^"]+)"', file.read_text()):
            _reached((file.parent / name).resolve(), found)
    return found


def test_a_module_imports_what_it_uses() -> None:
    """A name that another module has is no name where it is not imported."""
    modules = {
        path: path.read_text() for path in STATIC.rglob("*.js") if "vendor" not in path.parts
    }
    exported = {
        name
        for text in modules.values()
        for name in re.findall(r"^export (?:async )?(?:function|const) (\w+)", text, re.MULTILINE)
    }
    faults: list[str] = []
    for path, text in modules.items():
        code = re.sub(r'^import .*$|^\s*//.*$|"(?:[^"\\\n]|\\.)*"', "", text, flags=re.MULTILINE)
        imports = re.findall(r"^import \{([^}]*)\}", text, re.MULTILINE)
        taken = {name.split(" as ")[-1].strip() for each in imports for name in each.split(",")}
        own = set(re.findall(r"(?:function|const|let) (\w+)", code))
        own |= set(re.findall(r"[({,]\s*(\w+)(?=\s*[,)}=:])", code))
        called = set(re.findall(r"(?<![.\w])(\w+)\(", code))
        faults += (f"{path.name} lacks {name}" for name in exported & called - taken - own)
        used = set(re.findall(r"\w+", code))
        faults += (f"{path.name} needs no {name}" for name in taken - used if name)

    assert faults == []


def test_the_first_visit_is_light() -> None:
    """All bytes of the first view, as they are sent, fit through a bad connection.

    Headers and answers of the API, some 9 kB, are beside them: the bar is 60 kB for all.
    """
    index = STATIC / "index.html"
    modules = _reached((STATIC / "app.js").resolve(), set())
    begin = STATIC / "begin.js"
    others = {index, begin, *(STATIC / f"{name}" for name in ("console.css", "icon.svg"))}
    others.add(STATIC / "manifest.webmanifest")
    worker = _reached((STATIC / "worker.js").resolve(), set())
    # As soon as something is shown: the stream, and what badges count.
    (later,) = re.findall(r"const LATER = \[(.*)\]", (STATIC / "app.js").read_text())
    follows: set[Path] = set()
    for name in ("stream", *re.findall(r"\w+", later)):
        _reached((STATIC / f"{name}.js").resolve(), follows)
    served = pages._read()
    files = [
        served[path.relative_to(STATIC).as_posix()] for path in modules | others | worker | follows
    ]
    sizes = [len(file.packed or file.body) for file in files]
    session = _reached((STATIC / "views" / "session.js").resolve(), set()) - modules
    named = {(STATIC / name).resolve() for name in re.findall(r'"([^"]+\.js)"', begin.read_text())}

    assert named == modules | session  # all at once, not one by one
    assert sum(sizes) < 50_000


# --- the login ---


async def test_a_login_lasts_until_it_is_ended(tmp_path: Path) -> None:
    """The cookie opens what the token opens, cannot be read by scripts, and holds no token."""
    server = ServerConfig(api_token=TOKEN)
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        page = await client.get("/console/")
        nobody = await client.get(SESSIONS)
        wrong = await client.post("/console/login", headers={"Authorization": "Bearer wrong"})
        answer = await client.post(
            "/console/login", headers={"Authorization": f"Bearer {TOKEN}", **SAME}
        )
        cookie = answer.headers["set-cookie"]
        client.cookies.clear()
        headers = {"Cookie": cookie.partition(";")[0], **SAME}
        begun = await client.post(SESSIONS, json={"agent": "test"}, headers=headers)
        listed = await client.get(SESSIONS, headers=headers)
        ended = await client.delete("/console/login", headers=headers)
        after = await client.get(SESSIONS, headers=headers)

    assert page.status_code == 200
    assert (nobody.status_code, wrong.status_code) == (401, 401)
    assert answer.status_code == 204
    port = gateway.base_url.rpartition(":")[2]
    assert cookie.startswith(f"everturn_{port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={LOGIN_S}"} <= {
        each.strip() for each in cookie.split(";")
    }
    assert TOKEN not in cookie
    assert (begun.status_code, listed.status_code) == (201, 200)
    assert (ended.status_code, after.status_code) == (204, 401)
    assert "Max-Age=0" in ended.headers["set-cookie"]


FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},  # a page of another port
    {"Origin": "https://elsewhere.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://elsewhere.example"},
]


async def test_a_cookie_counts_in_requests_of_the_own_page_alone(tmp_path: Path) -> None:
    """A browser sends it along with what other pages ask; that opens nothing."""
    server = ServerConfig(api_token=TOKEN)
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        cookie = {"Cookie": await log_in(client)}
        own = {"Origin": gateway.base_url, **SAME}
        body = {"agent": "test"}
        good = await client.post(SESSIONS, json=body, headers={**cookie, **own})
        typed = await client.get(SESSIONS, headers={**cookie, "Sec-Fetch-Site": "none"})
        posted = await client.post(
            SESSIONS, json=body, headers={**cookie, "Sec-Fetch-Site": "none"}
        )
        bad = {
            str(headers): (
                (await client.post(SESSIONS, json=body, headers={**cookie, **headers})).status_code,
                (await client.get(SESSIONS, headers={**cookie, **headers})).status_code,
            )
            for headers in FOREIGN
        }
        reached: list[str] = []
        for (method, template), rule in RULES.items():
            if rule.need != "open":
                path = re.sub(r"\{[^}]*\}", "test", template)
                answer = await client.request(method, path, headers={**cookie, **FOREIGN[0]})
                reached += [f"{method} {path}"] if answer.status_code != 401 else []

    assert (good.status_code, typed.status_code, posted.status_code) == (201, 200, 401)
    assert bad == dict.fromkeys(map(str, FOREIGN), (401, 401))
    assert reached == []


async def test_without_a_token_no_other_page_reaches_anything(tmp_path: Path) -> None:
    """On loopback the machine is all the authority there is, and a browser is on it too."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        for site in ("cross-site", "same-site"):
            read = await client.get(SESSIONS, headers={"Sec-Fetch-Site": site})
            page = await client.get("/console/", headers={"Sec-Fetch-Site": site})

            assert (read.status_code, page.status_code) == (403, 200), site
            assert read.json()["type"] == "urn:everturn:problem:foreign-host"
        own = await client.get(SESSIONS, headers=SAME)
        rebound = await client.get("/console/", headers={"Host": "evil.example"})

    assert (own.status_code, rebound.status_code) == (200, 403)


async def test_a_login_is_worth_what_its_token_is_and_a_link_is_one_once(tmp_path: Path) -> None:
    """A principal sees its own sessions in the page too, and may do there what its scopes say.

    Whoever reads a link in the terminal's history later has nothing of it, and it opens no API.
    """
    server = ServerConfig(api_token=TOKEN)
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        token = await gateway.token("bob", "read")
        secret = await gateway.session()
        headers = {"Cookie": await log_in(client, token), **SAME}
        listed = await client.get(SESSIONS, headers=headers)
        closed = await client.get(f"{SESSIONS}/{secret}", headers=headers)
        talking = await client.post(SESSIONS, json={"agent": "test"}, headers=headers)

        code = gateway.logins.make_link()
        bearer = {"Authorization": f"Bearer {code}"}
        direct = await client.get(SESSIONS, headers=bearer)
        cookie = await log_in(client, code)
        inside = await client.get(SESSIONS, headers={"Cookie": cookie, **SAME})
        again = await client.post("/console/login", headers=bearer)

    assert (listed.status_code, listed.json()["sessions"]) == (200, [])
    assert (closed.status_code, talking.status_code) == (404, 403)
    assert (direct.status_code, inside.status_code, again.status_code) == (401, 200, 401)


async def test_behind_a_proxy_its_public_address_is_the_own_one(tmp_path: Path) -> None:
    """With TLS in front the cookie never travels without it."""
    server = ServerConfig(api_token=TOKEN, public_url="https://bots.example.org")
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        answer = await client.post("/console/login", headers=bearer)
        client.cookies.clear()
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        public = await client.get(
            SESSIONS, headers={**cookie, "Origin": "https://bots.example.org"}
        )
        inner = await client.get(SESSIONS, headers={**cookie, "Origin": gateway.base_url})

    assert "; Secure" in answer.headers["set-cookie"]
    assert (public.status_code, inner.status_code) == (200, 401)


def test_logins_and_links_end_by_themselves() -> None:
    """Half a day, and a quarter of an hour; however many come, memory has its bound."""
    now_s = 0.0
    logins = Logins(lambda: now_s)
    owner = Principal(name="api token", scopes=frozenset(("operate",)), is_owner=True)
    secret, code = logins.begin(owner, None), logins.make_link()
    now_s = LINK_S
    assert not logins.redeem(code)
    assert logins.find(secret) is not None
    now_s = LOGIN_S
    assert logins.find(secret) is None

    first = logins.begin(owner, None)
    last = [logins.begin(owner, None) for _ in range(LOGINS_MAX)][-1]
    assert logins.find(first) is None
    assert logins.find(last) is not None
