"""Names of time zones."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_gateway.time_zones import check_zone


@table("name", ["Europe/Berlin", "America/Argentina/Ushuaia", "UTC", "Etc/GMT+5"])
def test_a_zone_is_found_by_its_name(name: str) -> None:
    """The IANA's names are those that every other program takes."""
    assert check_zone(name).key == name


@table(
    ("name", "meant"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("", "like Europe/Berlin or UTC"),
        ("Europe", "is no time zone"),
        ("localtime", "is no time zone"),
        ("posixrules", "is no time zone"),
        ("right/Europe/Berlin", "is no time zone"),
        ("../../etc/passwd", "is no time zone"),
        ("/etc/localtime", "is no time zone"),
        ("zone.tab", "is no time zone"),
        ("a\0b", "is no time zone"),
        ("\ud800", "is no time zone"),
        ("Z" * 100_000, "is no time zone"),
    ],
)
def test_another_name_is_refused_with_what_may_be_meant(name: str, meant: str) -> None:
    """A zone that is guessed is an hour that is wrong; and a name never becomes a path."""
    with pytest.raises(ValueError, match="time zone") as caught:
        check_zone(name)

    assert meant in str(caught.value)
    assert len(str(caught.value)) < 200
