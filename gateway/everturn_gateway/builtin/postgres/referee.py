"""Who works on what, where several gateways share a database: leases in two tables.

One statement a second and gateway; only the server's clock counts. A connection of its own, so that
a lease is not lost because all others are busy.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from msgspec import DecodeError, json

from everturn_actors.cluster.leases import TTL_S, Answer, Beat, Member, Share, shares
from everturn_gateway.builtin.postgres.database import Connection, Database
from everturn_gateway.builtin.postgres.faults import LIBRARY_ERRORS, explained

# All of it sees the tables as they were before, so that a lease is taken and given back in one row
# each. A row that another one changes meanwhile is waited for, and looked at again. The lease that
# somebody holds is not touched, however often another one claims it. A beat that its sender gave up
# may be done behind a later one, as where both waited for a standby: it shortens nothing.
_BEAT: Final = """
WITH present AS (
    INSERT INTO node AS n (name, instance, about, until)
    SELECT $1, $2, $3::bytea, now() + $4 WHERE NOT $5
    ON CONFLICT (name) DO UPDATE
        SET instance = excluded.instance, about = excluded.about, until = excluded.until
), gone AS (
    DELETE FROM node WHERE name = $1 AND instance = $2 AND $5
), kept AS (
    UPDATE lease l SET until = greatest(l.until, now() + $4)
    FROM unnest($6::text[], $7::bigint[]) AS k (name, epoch)
    WHERE l.name = k.name AND l.epoch = k.epoch AND l.instance = $2 AND l.until > now()
    RETURNING l.name, l.epoch
), given AS (
    UPDATE lease l SET until = now()
    FROM unnest($8::text[], $9::bigint[]) AS g (name, epoch)
    WHERE l.name = g.name AND l.epoch = g.epoch AND l.instance = $2 AND l.until > now()
), claimed AS (
    INSERT INTO lease AS l (name, node, instance, epoch, until)
    SELECT c.name, $1, $2, 1, now() + $4 FROM unnest($10::text[]) AS c (name)
    WHERE NOT EXISTS (SELECT FROM lease h WHERE h.name = c.name AND h.until > now())
    ORDER BY c.name
    ON CONFLICT (name) DO UPDATE SET node = excluded.node, instance = excluded.instance,
        epoch = l.epoch + 1, until = excluded.until
    WHERE l.until <= now()
    RETURNING l.name, l.epoch
)
SELECT 'granted' AS kind, name, '' AS node, '' AS instance, epoch, ''::bytea AS about FROM kept
UNION ALL SELECT 'granted', name, '', '', epoch, '' FROM claimed
UNION ALL SELECT 'lease', name, node, instance, epoch, '' FROM lease WHERE until > now()
UNION ALL SELECT 'node', name, '', instance, 0, about FROM node WHERE until > now()
"""
_TTL: Final = timedelta(seconds=TTL_S)
_NODES: Final = "SELECT name, about FROM node WHERE until > now() ORDER BY name"
_LEASES: Final = "SELECT name, node FROM lease WHERE until > now()"


class PostgresReferee:
    """`Referee` in a database; see there."""

    def __init__(self, database: Database) -> None:
        """Connect before the first beat."""
        self._database = database
        self._connection: Connection | None = None

    async def prepare(self) -> None:
        """See `Referee.prepare`."""
        if self._connection is None:
            with self._noting():
                self._connection = await self._database.connect("everturn leases")

    async def beat(self, beat: Beat) -> Answer:
        """See `Referee.beat`."""
        me = beat.member
        await self.prepare()
        assert self._connection is not None, "prepared"
        with self._noting():
            rows = await self._connection.fetch(
                _BEAT, me.node.name, me.instance, json.encode(me), _TTL, beat.leaves,
                list(beat.keep), list(beat.keep.values()), list(beat.give),
                list(beat.give.values()), list(beat.claim),
            )  # fmt: skip
        granted = {row["name"]: row["epoch"] for row in rows if row["kind"] == "granted"}
        leases = [row for row in rows if row["kind"] == "lease" and row["name"] not in granted]
        members = {
            row["name"]: member
            for row in rows
            if row["kind"] == "node" and (member := _member(row["about"])) is not None
        }
        members.pop(me.node.name, None)  # as it was before this beat
        if not beat.leaves:
            members[me.node.name] = me
        return Answer(
            granted=granted,
            found={
                row["name"]: row["epoch"]
                for row in leases
                if row["instance"] == me.instance and row["name"] not in beat.give
            },
            others={row["name"]: row["node"] for row in leases if row["instance"] != me.instance},
            members=tuple(members[name] for name in sorted(members)),
        )

    @contextmanager
    def _noting(self) -> Generator[None]:
        """Where this fails, let the connection go: what it was doing is not known.

        And let the database be in doubt: no other connection may have been used meanwhile.
        """
        try:
            yield
        except BaseException as error:
            self.close()
            is_known = isinstance(error, LIBRARY_ERRORS)  # else it was waited for no more
            known = error if is_known else TimeoutError()
            told = explained(known, self._database.place, is_write=True)
            self._database.fault = str(told)
            if is_known:
                raise told from error
            raise

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def look_at_nodes(database: Database) -> tuple[Share, ...]:
    """Return which gateways live, by name, and what each of them holds.

    Raises:
        JournalError: The database cannot be read.
    """
    members = [_member(row["about"]) for row in await database.rows(_NODES)]
    holders = {row["name"]: row["node"] for row in await database.rows(_LEASES)}
    return shares([member for member in members if member is not None], holders)


def _member(about: bytes) -> Member | None:
    """Return who a row tells of; None where a later version writes it in another way."""
    try:
        return json.decode(about, type=Member)
    except DecodeError:
        return None
