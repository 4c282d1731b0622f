"""Which addresses a web tool may reach: the public Internet, and what the owner lists."""

from __future__ import annotations

from ipaddress import ip_address

import anyio
import pytest
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.plugins import ToolSettingsError
from everturn_gateway.tools.web.addresses import (
    Reach,
    literal,
    reach_of,
    read_allowed,
)
from everturn_gateway.tools.web.reaching import Reaching, UnreachableError, _is_own, resolve


@table(
    ("address", "reach"),
    [
        ("8.8.8.8", "public"),
        ("0.0.0.0", "loopback"),  # noqa: S104 - nothing is bound to it
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "private"),
        ("100.100.100.200", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("172.32.0.1", "public"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "link-local"),
        ("192.0.0.192", "reserved"),
        ("198.18.0.1", "private"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("2606:4700::1111", "public"),
        ("::", "loopback"),
        ("::1", "loopback"),
        ("::127.0.0.1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:8.8.8.8", "public"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b::808:808", "public"),
        ("64:ff9b:1::808:808", "reserved"),
        ("2002:7f00:1::", "reserved"),
        ("2001::1", "reserved"),
        ("2001:db8::1", "reserved"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("4000::1", "reserved"),
    ],
)
def test_only_the_public_internet_is_public(address: str, reach: Reach) -> None:
    """One range forgotten, and a page can have the gateway read its own metadata service."""
    assert reach_of(ip_address(address)) == reach


@table(
    "host", ["2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "1.2.3.4.5", "a.1", "0x"]
)
def test_a_number_that_is_no_plain_address_is_refused(host: str) -> None:
    """Programs disagree on what it means, and a guard that disagrees with the system guards not."""
    with pytest.raises(ValueError, match=r"no plain address"):
        literal(host)


def test_names_and_plain_addresses_are_told_apart() -> None:
    """A name has to be looked up, an address must not be."""
    assert literal("example.com") is None
    assert literal("1password.com") is None
    assert literal("127.0.0.1") == ip_address("127.0.0.1")
    assert literal("::1") == ip_address("::1")


def test_an_owner_allows_hosts_and_networks_and_nothing_beside_them() -> None:
    """What is allowed by mistake is open for every page that the agent reads."""
    allowed = read_allowed(("Wiki.LAN.", "10.1.0.0/16", "192.168.1.5", "[fd00::1]", "localhost"))

    assert allowed.lists("wiki.lan", ip_address("192.168.7.7"))
    assert allowed.lists("localhost", ip_address("127.0.0.1"))
    assert allowed.lists("other.lan", ip_address("10.1.255.1"))
    assert allowed.lists("", ip_address("::ffff:10.1.0.1"))
    assert allowed.lists("", ip_address("fd00::1"))
    assert not allowed.lists("other.lan", ip_address("192.168.7.7"))
    assert not allowed.lists("wiki.lan.evil.example", ip_address("192.168.7.7"))
    assert not allowed.lists("", ip_address("10.2.0.1"))
    assert not allowed.lists("", ip_address("192.168.1.6"))

    # Whoever can change a name in the local DNS must not reach the keys of the machine by it.
    metadata = ip_address("169.254.169.254")

    assert not read_allowed(("wiki.lan",)).lists("wiki.lan", metadata)
    assert read_allowed(("169.254.169.254",)).lists("", metadata)


@table(
    "entry", ["", "10.0.0.0/33", "http://wiki.lan", "wiki.lan:80", "*.lan", "10.1", "0x7f.1", "a b"]
)
def test_an_entry_that_allows_nothing_is_named(entry: str) -> None:
    """A typo that is ignored looks like a network that is down."""
    with pytest.raises(ToolSettingsError, match=r"allow_private: .* 10\.1\.0\.0/16"):
        read_allowed((entry,))


# --- from a host to its addresses ---


def found(*addresses: str) -> tuple[Reaching, list[str]]:
    """Return who reaches the public Internet, where every name has `addresses`."""
    asked: list[str] = []

    async def find(host: str, _port: int) -> tuple[str, ...]:
        asked.append(host)
        return addresses

    return Reaching(read_allowed(()), find), asked


async def test_every_address_of_a_name_has_to_be_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public and private at once is how a guard that looks at one is passed."""
    # The firewall in front of this machine does not stand between the machine and itself.
    monkeypatch.setattr(
        "everturn_gateway.tools.web.reaching._is_own", lambda ip: str(ip) == "8.8.4.4"
    )
    cases: tuple[tuple[tuple[str, ...], str], ...] = (
        (("8.8.8.8", "10.0.0.1"), r"site\.example \(10\.0\.0\.1\).*private"),
        (("8.8.8.8", "8.8.4.4"), "is this machine"),
        # What a resolver answers is not to be trusted either.
        ((), "site"),
        (("fe80::1%eth0",), "site"),
        (("nonsense",), "site"),
    )
    for addresses, said in cases:
        with pytest.raises(UnreachableError, match=said):
            await found(*addresses)[0].addresses("site.example", 443)


async def test_no_more_addresses_are_tried_than_a_person_would_wait_for() -> None:
    """A name with a hundred dead addresses must not take minutes."""
    reaching, _ = found(*(f"8.8.8.{number}" for number in range(100)))

    assert await reaching.addresses("site.example", 80) == tuple(f"8.8.8.{n}" for n in range(4))

    # There is nothing to find, and a resolver could answer with something else.
    reaching, asked = found("10.0.0.1")

    assert await reaching.addresses("8.8.8.8", 80) == ("8.8.8.8",)
    assert asked == []


async def test_ports_where_no_web_server_is_are_refused() -> None:
    """A request is also a text that a mail server or a database may obey."""
    reaching, _ = found("8.8.8.8")
    for port in (0, 22, 25, 81, 6000, 6667):
        with pytest.raises(UnreachableError, match=f"port {port}"):
            await reaching.addresses("site.example", port)
    for port in (80, 443, 1024, 8080, 65535):  # much of the web is not on 443
        assert await reaching.addresses("site.example", port) == ("8.8.8.8",)


def test_the_machine_knows_its_own_addresses() -> None:
    """Services may trust whoever comes from the same machine, under its public address too."""
    assert _is_own(ip_address("127.0.0.1"))
    assert not _is_own(ip_address("192.0.2.1"))


async def test_the_system_is_asked_for_names() -> None:
    """A hosts file, for one, should hold for pages as it does for everything else."""
    with anyio.fail_after(WAIT_S):
        found = set(await resolve("localhost", 80))

    assert found
    assert found <= {"127.0.0.1", "::1"}
