"""The index of what was said, in a file of its own: SQLite FTS5. Blocking; used from any thread.

A row is an event that says something. Its number holds that of its session above that of the event,
so a match needs no second table. Where it may stand, who said it and when are words of a column of
their own, which costs a search nothing but one more word. Nothing is synced: what a loss of power
damages is made anew.

Source: https://www.sqlite.org/fts5.html (read 2026-11-26): `bm25` looks at every row that matches,
some 2 microseconds each, so words of which very many messages have one are left out where others
tell more. Each transaction writes a part of its own. Merging these by four, as SQLite does unasked,
costs a message that comes alone up to three times what writing it costs, and by sixteen up to once
as much. `crisismerge` is far above that, as such a merge is done in one go.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, get_args

from msgspec import Struct

from everturn_actors.model import ConversationKey
from everturn_actors.ports.search import MessageMatch, MessageQuery, SearchPlace, SearchRole
from everturn_actors.sqlite_cache import Layout, SqliteCache
from everturn_gateway.search.words import Term, indexed, words_of

_SEQ_BITS: Final = 32
_SEQ_MASK: Final = (1 << _SEQ_BITS) - 1
_RANKED_ROWS: Final = 12_000  # that one search ranks; some 25 ms
_SESSIONS_NAMED: Final = 200  # in one query, where no word stands for all of them
_DATE_WORDS: Final = 150
_MERGED_PAGES: Final = 200  # in one step of a purge, some 50 ms
_COMMON_PLACES: Final = 512  # whose common words are held; those of others are counted again
_EPOCH: Final = datetime(2020, 1, 1, tzinfo=UTC)
_LAST_DAY: Final = date(2079, 12, 31)
_ROLES: Final[dict[SearchRole, str]] = {
    role: f"r{number}" for number, role in enumerate(get_args(SearchRole))
}
# `who` counts half: a name in a question says of whom it asks, and who speaks of them is many.
_SCHEMA: Final = """
CREATE VIRTUAL TABLE messages USING fts5(
    place, who, text, tokenize = 'porter unicode61 remove_diacritics 2');
INSERT INTO messages (messages, rank) VALUES ('rank', 'bm25(0.0, 0.5, 1.0)');
INSERT INTO messages (messages, rank) VALUES ('automerge', 16);
INSERT INTO messages (messages, rank) VALUES ('crisismerge', 64);
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,         -- seconds from 2020 to its beginning, or the next free one
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    agent TEXT NOT NULL,
    place TEXT NOT NULL,                -- the words that all its rows have
    seq INTEGER NOT NULL DEFAULT 0      -- the last event that was looked at
);
CREATE INDEX chats ON sessions (channel, chat);
CREATE TABLE viewers (                  -- a principal that was given a session it did not begin
    principal TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (principal, number)
) WITHOUT ROWID;
CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

_LAYOUT: Final = Layout(
    version=2,
    tables=("messages", "sessions", "viewers", "marks"),
    schema=_SCHEMA,
    pragmas=("journal_mode = WAL", "secure_delete = ON"),  # what was deleted is gone
)
_MATCHING: Final = "SELECT rowid FROM messages WHERE messages MATCH ? AND rowid BETWEEN ? AND ?"
_BEST: Final = f"{_MATCHING} ORDER BY rank LIMIT ? OFFSET ?"
_NEWEST: Final = f"{_MATCHING} ORDER BY rowid DESC LIMIT ? OFFSET ?"
_COUNT: Final = f"SELECT count(*) FROM ({_MATCHING} LIMIT ?)"  # noqa: S608 - of constants
_ALL_ROWS: Final = (0, (1 << 63) - 1)


class IndexedSession(Struct, frozen=True, kw_only=True):
    """What is known of a session beside what was said in it."""

    session_id: str
    key: ConversationKey
    created_at: datetime
    principal: str = ""
    shared_with: tuple[str, ...] = ()


class IndexedMessage(Struct, frozen=True):
    """One event, as it is put into the index."""

    seq: int
    at: datetime
    role: SearchRole
    who: str
    text: str


class Batch(Struct, frozen=True, kw_only=True):
    """What came of one session."""

    session: IndexedSession
    last_seq: int
    "The last event that was looked at, whether it says something or not."
    messages: tuple[IndexedMessage, ...] = ()
    "Ascending."


class MessageTable(SqliteCache):
    """The index; it is opened with its first use."""

    def __init__(self, path: Path | None) -> None:
        """Begin with nothing open.

        Args:
            path: The file; None = in memory, for as long as this lives.
        """
        super().__init__(path, _LAYOUT)
        self._common = _CommonWords()

    def mark(self, name: str) -> int:
        """Return a number that was kept; 0 where none was."""
        with self.transaction() as database:
            found = database.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else 0

    def last_seqs(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return the last event of each session that was looked at; 0 where none was."""
        query = "SELECT seq FROM sessions WHERE id = ?"
        with self.transaction() as database:
            found = {each: database.execute(query, (each,)).fetchone() for each in session_ids}
        return {each: int(row[0]) if row else 0 for each, row in found.items()}

    def session_ids(self, first: str, above: str) -> set[str]:
        """Return the ids of sessions from `first` on and below `above`; empty = without an end."""
        query = "SELECT id FROM sessions WHERE id >= ? AND (id < ? OR ? = '')"
        with self.transaction() as database:
            return {row[0] for row in database.execute(query, (first, above, above))}

    def put(self, batches: Iterable[Batch], marks: Iterable[tuple[str, int]] = ()) -> None:
        """Add what came of sessions, all of it or nothing; what is there already is passed over.

        Args:
            batches: What came.
            marks: Numbers to keep with it, for `mark`: one transaction costs less than two.
        """
        with self.transaction() as database:
            rows: list[tuple[int, str, str, str]] = []
            for batch in batches:
                number, place, seq = _session(database, batch.session)
                if batch.last_seq <= seq:
                    continue
                update = "UPDATE sessions SET seq = ? WHERE number = ?"
                database.execute(update, (batch.last_seq, number))
                rows += (
                    (
                        number << _SEQ_BITS | each.seq,
                        f"{place} {_ROLES[each.role]} {_day_words(each.at.astimezone(UTC).date())}",
                        indexed(each.who),
                        indexed(each.text),
                    )
                    for each in batch.messages
                    if seq < each.seq <= min(batch.last_seq, _SEQ_MASK)
                )
            rows.sort()  # out of order, each row would be written for itself
            insert = "INSERT INTO messages (rowid, place, who, text) VALUES (?, ?, ?, ?)"
            database.executemany(insert, rows)
            for each in marks:
                database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", each)

    def forget(self, session_id: str) -> None:
        """Remove a session and all its rows."""
        with self.transaction() as database:
            number = _number(database, session_id)
            if number is None:
                return
            rows = _rows_of(number)
            database.execute("DELETE FROM messages WHERE rowid BETWEEN ? AND ?", rows)
            database.execute("DELETE FROM sessions WHERE number = ?", (number,))
            database.execute("DELETE FROM viewers WHERE number = ?", (number,))
            self._common.clear()

    def purge(self, *, begins: bool) -> bool:
        """Take one step of overwriting what was removed; return whether there is more to do.

        Words of rows that were removed stay in the file until its parts are merged, and in SQLite's
        log until that is emptied, which the last step does.

        Source: https://www.sqlite.org/fts5.html#the_merge_command (read 2026-11-27).

        Args:
            begins: Whether this is the first step.
        """
        with self.transaction() as database:
            before = database.total_changes
            merge = "INSERT INTO messages (messages, rank) VALUES ('merge', ?)"
            database.execute(merge, (-_MERGED_PAGES if begins else _MERGED_PAGES,))
            if database.total_changes - before > 1:
                return True
        with self.transaction() as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return False

    def search(self, query: MessageQuery) -> tuple[list[MessageMatch], bool]:
        """Return the matches that are asked for, the best first, and whether there are more."""
        words = words_of(query.text)
        if words.is_empty:
            return [], False
        with self.transaction() as database:
            within = _within(database, query)
            if within is None:
                return [], False
            phrases = [_text(term.match) for term in words.all_of]
            all_of = _Filter([*within.all_of, *phrases], within.rows)
            if query.common_rows is None:
                terms, is_ranked = _telling(database, words.any_of, all_of)
            else:
                known = self._common.of(all_of, query.common_rows)
                terms = _rare(database, words.any_of, all_of, query.common_rows, known)
                is_ranked = True
            if not terms and not phrases:
                return [], False
            wanted = " OR ".join(term.match for term in terms)
            rows = database.execute(
                _BEST if is_ranked else _NEWEST,
                (*all_of.arguments(wanted), query.limit + 1, query.offset),
            ).fetchall()
            names = _names(database, {rowid >> _SEQ_BITS for (rowid,) in rows})
        matches = [
            MessageMatch(names[rowid >> _SEQ_BITS], rowid & _SEQ_MASK)
            for (rowid,) in rows[: query.limit]
            if rowid >> _SEQ_BITS in names
        ]
        return matches, len(rows) > query.limit


def _session(database: sqlite3.Connection, session: IndexedSession) -> tuple[int, str, int]:
    """Return the number of a session, the words of its place, and the last event looked at."""
    query = "SELECT number, place, seq FROM sessions WHERE id = ?"
    found = database.execute(query, (session.session_id,)).fetchone()
    if found is None:
        number = max((session.created_at - _EPOCH) // timedelta(seconds=1), 1)
        taken = "SELECT 1 FROM sessions WHERE number = ?"
        while database.execute(taken, (number,)).fetchone():
            number += 1
        key = session.key
        words = [
            f"s{number}",
            _word("a", key.agent),
            _word("h", key.channel),
            _word("t", key.channel, key.chat),
            _word("c", key.channel, key.chat, key.topic, key.agent),
        ]
        if session.principal:
            words.append(_word("v", session.principal))
        found = (number, " ".join(words), 0)
        database.execute(
            "INSERT INTO sessions (number, id, channel, chat, agent, place)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (number, session.session_id, key.channel, key.chat, key.agent, found[1]),
        )
    if session.shared_with:
        given = ((each, found[0]) for each in session.shared_with)
        database.executemany("INSERT OR IGNORE INTO viewers VALUES (?, ?)", given)
    number, place, seq = found
    return int(number), str(place), int(seq)


def _names(database: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    query = "SELECT id FROM sessions WHERE number = ?"
    found = ((each, database.execute(query, (each,)).fetchone()) for each in numbers)
    return {number: row[0] for number, row in found if row is not None}


class _Filter(Struct, frozen=True):
    """What has to be true of each row."""

    all_of: Sequence[str]
    rows: tuple[int, int] = _ALL_ROWS
    "The first and the last."

    def arguments(self, wanted: str) -> tuple[str, int, int]:
        """Return what `_MATCHING` is asked with for rows that also have a wanted word."""
        every = (*self.all_of, _text(wanted)) if wanted else self.all_of
        return " AND ".join(every), *self.rows


class _CommonWords:
    """Words that too many rows of a place have. Used by one thread at a time, as its table is.

    Rows are added, and only those of whole sessions removed: such a word stays one.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], set[str]] = OrderedDict()

    def of(self, within: _Filter, common_rows: int) -> set[str]:
        """Return those of a place, for more to be added."""
        place = (*within.all_of, *within.rows, common_rows)
        known = self._known.setdefault(place, set())
        self._known.move_to_end(place)
        if len(self._known) > _COMMON_PLACES:
            self._known.popitem(last=False)
        return known

    def clear(self) -> None:
        """Forget all: there are fewer rows."""
        self._known.clear()


def _rows(database: sqlite3.Connection, term: Term, within: _Filter, most: int) -> int:
    """Return how many rows have a term; beyond `most` one more than that."""
    arguments = (*within.arguments(term.match), most + 1)
    (rows,) = database.execute(_COUNT, arguments).fetchone()
    return int(rows)


def _rare(
    database: sqlite3.Connection,
    terms: Sequence[Term],
    within: _Filter,
    common_rows: int,
    known: set[str],
) -> Sequence[Term]:
    """Return the terms that some rows may have, and not too many, the rarest first.

    Args:
        database: Is asked.
        terms: What is looked for.
        within: What has to be true of each row.
        common_rows: More are too many.
        known: Terms that too many have: they are not counted again. Those that are found are added.
    """
    # Most terms stand nowhere or in few rows, which a count without all else tells sooner: to
    # look for the words of a place takes three times as long. The rank of a row is the same.
    anywhere = _Filter((), within.rows)
    counted: list[tuple[int, int]] = []
    for position, term in enumerate(terms):
        if term.match in known:
            continue
        rows = _rows(database, term, anywhere, common_rows)
        if rows > common_rows:
            rows = _rows(database, term, within, common_rows)
        if rows > common_rows:
            known.add(term.match)
        elif rows:
            counted.append((rows, position))
    return [terms[position] for _, position in sorted(counted)]


def _telling(
    database: sqlite3.Connection, terms: Sequence[Term], within: _Filter
) -> tuple[Sequence[Term], bool]:
    """Return the terms to look for, the rarest first, and whether the rows can be ranked.

    Those of which too many rows have one are left out, but not where there is nothing else.
    """
    counted: list[tuple[int, int]] = []
    for position, term in enumerate(terms):
        if rows := _rows(database, term, within, _RANKED_ROWS):
            counted.append((rows, position))
    kept: list[Term] = []
    left = _RANKED_ROWS
    for rows, position in sorted(counted):
        if rows > left and kept:
            break
        kept.append(terms[position])
        left -= rows
        if left < 0:
            return kept, False
    return kept or terms, True


def _within(database: sqlite3.Connection, query: MessageQuery) -> _Filter | None:
    """Return what has to be true of a row, as the index is asked for it; None = of none it is."""
    found: list[str] = []
    rows = _ALL_ROWS
    session_id = query.places[0].session_id if len(query.places) == 1 else ""
    if session_id and query.places[0] == SearchPlace(session_id=session_id):
        number = _number(database, session_id)
        if number is None:
            return None
        # One session is a range of rows, which costs less than a word that each of them has.
        rows = _rows_of(number)
    elif query.places:
        places = [_place(database, place) for place in query.places]
        known = [place for place in places if place]
        if not known:
            return None
        if "" not in places:  # an empty text stands for a place without bounds
            found.append(_in("place", " OR ".join(known)))
    if query.roles is not None:
        found.append(_in("place", " OR ".join(_ROLES[role] for role in sorted(query.roles))))
    if query.since or query.until:
        found.append(_in("place", " OR ".join(_date_words(query.since, query.until))))
    who = words_of(query.sender)
    if not who.is_empty:
        found.append(_in("who", " AND ".join(term.match for term in who.any_of + who.all_of)))
    return _Filter(found, rows)


def _number(database: sqlite3.Connection, session_id: str) -> int | None:
    query = "SELECT number FROM sessions WHERE id = ?"
    found = database.execute(query, (session_id,)).fetchone()
    return None if found is None else int(found[0])


def _rows_of(number: int) -> tuple[int, int]:
    """Return the first and the last row that a session may have."""
    return number << _SEQ_BITS, number << _SEQ_BITS | _SEQ_MASK


def _place(database: sqlite3.Connection, place: SearchPlace) -> str | None:
    """Return what is true of the rows of a place; empty = of all, None = of none."""
    words: list[str] = []
    if place.session_id:
        number = _number(database, place.session_id)
        if number is None:
            return None
        words.append(f"s{number}")
    if (key := place.conversation) is not None:
        words.append(_word("c", key.channel, key.chat, key.topic, key.agent))
    if place.agents is not None:
        if not place.agents:
            return None
        words.append(_any(_word("a", each) for each in sorted(place.agents)))
    if place.channel and not place.chat:
        words.append(_word("h", place.channel))
    elif place.chat and not place.chat.endswith("*"):
        words.append(_word("t", place.channel, place.chat))
    elif place.chat:
        numbers = _chats(database, place.channel, place.chat[:-1])
        if not numbers:
            return None
        words.append(_any(f"s{each}" for each in numbers))
    if place.seen_by:
        given = "SELECT number FROM viewers WHERE principal = ? ORDER BY number DESC LIMIT ?"
        rows = database.execute(given, (place.seen_by, _SESSIONS_NAMED)).fetchall()
        words.append(_any((_word("v", place.seen_by), *(f"s{number}" for (number,) in rows))))
    return f"({' AND '.join(words)})" if words else ""


def _chats(database: sqlite3.Connection, channel: str, prefix: str) -> list[int]:
    query = (
        "SELECT number FROM sessions WHERE channel = ? AND substr(chat, 1, ?) = ?"
        " ORDER BY number DESC LIMIT ?"
    )
    rows = database.execute(query, (channel, len(prefix), prefix, _SESSIONS_NAMED)).fetchall()
    return [number for (number,) in rows]


def _word(kind: str, *parts: str) -> str:
    """Return a word that stands for a place: a letter, and digits, which no stemmer changes."""
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=7)
    return f"{kind}{int.from_bytes(digest.digest(), 'big')}"


def _any(words: Iterable[str]) -> str:
    return f"({' OR '.join(words)})"


def _in(column: str, wanted: str) -> str:
    return f"{column} : ({wanted})"


def _text(wanted: str) -> str:
    return f"{{who text}} : ({wanted})"


@lru_cache(maxsize=16)  # what is written together is mostly of one day
def _day_words(day: date) -> str:
    return f"y{day:%Y} m{day:%Y%m} d{day:%Y%m%d}"


def _date_words(since: date | None, until: date | None) -> list[str]:
    """Return words of which every row between two days has one: of years, of months, of days."""
    day = since or _EPOCH.date()
    last = until or _LAST_DAY
    words: list[str] = []
    while day <= last and len(words) < _DATE_WORDS:
        year_end, next_month = date(day.year, 12, 31), _next_month(day)
        if day.day == 1 and day.month == 1 and year_end <= last:
            words.append(f"y{day:%Y}")
            day = year_end + timedelta(days=1)
        elif day.day == 1 and next_month - timedelta(days=1) <= last:
            words.append(f"m{day:%Y%m}")
            day = next_month
        else:
            words.append(f"d{day:%Y%m%d}")
            day += timedelta(days=1)
    return words or ["y0"]


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
