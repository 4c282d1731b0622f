"""From which address a request comes: what proxies say, and who may say it."""

from __future__ import annotations

from ipaddress import ip_network

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from support.tables import table

from everturn_gateway.http.access.addresses import client_address

TRUSTED = (ip_network("10.0.0.0/24"), ip_network("fd00::/64"))
PROXY, STRANGER = "10.0.0.7", "203.0.113.9"


def headers(*lines: tuple[str, str]) -> Headers:
    """Return headers, repeated ones too."""
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in lines])


@table(
    ("lines", "address"),
    [
        ([], PROXY),
        ([("x-forwarded-for", STRANGER)], STRANGER),
        ([("x-forwarded-for", f"1.1.1.1, {STRANGER}")], STRANGER),
        ([("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", STRANGER)], STRANGER),
        ([("x-forwarded-for", f"{STRANGER}, 10.0.0.9")], STRANGER),
        ([("x-forwarded-for", f"1.1.1.1, {STRANGER}:4711 , 10.0.0.9")], STRANGER),
        ([("x-forwarded-for", "10.0.0.9")], "10.0.0.9"),
        ([("x-forwarded-for", f"{STRANGER}, rubbish")], PROXY),
        ([("x-forwarded-for", "::ffff:203.0.113.9")], STRANGER),
        ([("x-forwarded-for", "2001:db8:1:2:3:4:5:6")], "2001:db8:1:2::/64"),
        ([("x-forwarded-for", "[2001:db8:1:2::6]:443")], "2001:db8:1:2::/64"),
        ([("forwarded", f"for={STRANGER};proto=https;by=10.0.0.7")], STRANGER),
        ([("forwarded", f'for="1.1.1.1", For="{STRANGER}:80"')], STRANGER),
        ([("forwarded", 'for="[2001:db8:1:2::6]:80"')], "2001:db8:1:2::/64"),
        ([("forwarded", "for=_hidden")], PROXY),
        ([("forwarded", "for=unknown, proto=http")], PROXY),
        ([("forwarded", f"for={STRANGER}"), ("x-forwarded-for", STRANGER)], STRANGER),
        # The proxy wrote one of them, and nobody knows which.
        ([("forwarded", f"for={STRANGER}"), ("x-forwarded-for", "1.1.1.1")], PROXY),
    ],
)
def test_a_trusted_proxy_is_believed_up_to_the_first_stranger(
    lines: list[tuple[str, str]], address: str
) -> None:
    """Limits count the person behind it; what that person wrote before does not count."""
    assert client_address(PROXY, headers(*lines), TRUSTED) == address


TEXT = st.text(alphabet=st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=40)
LINE = st.tuples(st.sampled_from(("x-forwarded-for", "forwarded", "x-real-ip")), TEXT)


@given(st.lists(LINE, max_size=4), st.sampled_from((STRANGER, "127.0.0.1", "::1", "", "what")))
def test_nobody_else_is_believed_at_all(lines: list[tuple[str, str]], peer: str) -> None:
    """Whoever could choose an address would have as many tries as there are addresses."""
    said = headers(*lines)
    assert client_address(peer, said, TRUSTED) == client_address(peer, headers(), TRUSTED)
    assert client_address(PROXY, said, ()) == PROXY


@given(st.lists(LINE, max_size=4))
def test_what_a_client_writes_does_not_change_what_the_proxy_adds(
    lines: list[tuple[str, str]],
) -> None:
    """A proxy appends its own line; whatever stands before it, the client stays the client."""
    forged = [(name, value) for name, value in lines if name == "x-forwarded-for"]
    appended = headers(*forged, ("x-forwarded-for", STRANGER))
    assert client_address(PROXY, appended, TRUSTED) == STRANGER
    mixed = client_address(PROXY, headers(*lines, ("x-forwarded-for", STRANGER)), TRUSTED)
    assert mixed in {STRANGER, PROXY}
