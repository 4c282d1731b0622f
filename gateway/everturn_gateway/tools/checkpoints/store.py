"""The checkpoints of one workspace on disk. Blocking: not for the event loop.

    blobs/<digest>        a content, written once, under the name of what it holds
    turns/<number>.json   a turn that changed files: what they were before and after
    calls/<id>.json       the workspace before a call that runs now, or was cut short

A content is there before a note names it, and a note takes its name whole: a kill leaves contents
that nobody names, which the next clearing removes. A call that was cut short leaves its note,
which nobody holds any more: what changed since counts as its turn's. Taking a turn back is noted
before it begins, and is finished by whoever comes next.

A folder of contents and not a repository of git: what is kept of a turn is the few files that it
changed, with their marks, and git has no place for these.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from everturn_actors.codec import Codec, Value, encode
from everturn_gateway.tools.checkpoints.scan import Files, Scanner, TooLargeError
from everturn_gateway.tools.checkpoints.values import Change, Checkpoint, FileState
from everturn_gateway.tools.confined import make_private

logger = logging.getLogger(__name__)

TURNS_MAX: Final = 50
STORE_MAX_BYTES: Final = 512 * 1024 * 1024
_CHANGES_MAX: Final = 5_000  # files of one turn; a build is nothing to take back file by file


class UnknownCheckpointError(Exception):
    """There is no such checkpoint; the text says which there are."""


class _Call(Value, frozen=True, kw_only=True):
    """The workspace before a call."""

    session_id: str
    turn: int
    at: datetime
    before: Mapping[str, FileState]


_CALL: Final = Codec[_Call](_Call)
_TURN: Final = Codec[Checkpoint](Checkpoint)


class OpenCall:
    """A call that runs; its note is held as long as it does."""

    def __init__(self, file: Path, fd: int, call: _Call) -> None:
        """Stand for the note in `file`, open and locked as `fd`."""
        self.file, self.fd, self.call = file, fd, call


class CheckpointStore:
    """Keeps the checkpoints of one workspace; for several processes at once."""

    def __init__(self, folder: Path, scanner: Scanner) -> None:
        """Keep them in `folder`, which is made when there is something to keep."""
        self._blobs, self._turns = folder / "blobs", folder / "turns"
        self._calls, self._folder = folder / "calls", folder
        self._scanner = scanner

    # --- calls ---

    def begin(self, session_id: str, turn: int, at: datetime) -> OpenCall:
        """Write down what the workspace is before a call.

        Raises:
            TooLargeError: It is more than is kept.
            OSError: It cannot be written.
        """
        with self.locked():
            self._settle_calls()
            call = _Call(session_id=session_id, turn=turn, at=at, before=self._scan())
            self._calls.mkdir(exist_ok=True)
            file = self._calls / f"{secrets.token_hex(8)}.json"
            # Before the call: a kill in the middle of it can be settled by this.
            _put(file, encode(call))
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return OpenCall(file, fd, call)

    def end(self, opened: OpenCall) -> None:
        """Write down what a call changed.

        Raises:
            TooLargeError, OSError: It cannot be known or written; the next call finds out.
        """
        try:
            with self.locked():
                self._note(opened.call, self._scan())
                # After the note: a crash between the two notes it again.
                opened.file.unlink(missing_ok=True)
        finally:
            os.close(opened.fd)

    def _settle_calls(self) -> None:
        """Write down what calls changed that were cut short: nobody holds their notes."""
        if not self._calls.is_dir():
            return
        for file in sorted(self._calls.glob("*.json")):
            with ExitStack() as stack:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # it runs
                try:
                    # Its process is gone; what changed since is its doing.
                    self._note(_CALL.decode(file.read_bytes()), self._scan())
                except ValueError as error:
                    fields = {"file": str(file), "reason": str(error)}
                    logger.warning("a note of a call is damaged and left out", extra=fields)
                file.unlink()

    def _note(self, call: _Call, after: Files) -> None:
        """Add what is another since a call began to the checkpoint of its turn."""
        before = call.before
        paths = [
            path
            for path in sorted(before.keys() | after.keys())
            if not _same(before.get(path), after.get(path))
        ]
        if not paths:
            return
        known = [each for each in self.checkpoints() if each.state == "made"]
        found = next(
            (
                each
                for each in reversed(known)
                if (each.session_id, each.turn) == (call.session_id, call.turn)
            ),
            None,
        )
        if found is None:
            number = max((each.number for each in self.checkpoints()), default=0) + 1
            found = Checkpoint(
                number=number, session_id=call.session_id, turn=call.turn, at=call.at
            )
        changes = dict(found.changes)
        for path in paths[:_CHANGES_MAX]:
            # Of several calls of a turn the oldest state counts.
            first = changes[path].before if path in changes else before.get(path)
            changes[path] = Change(before=first, after=after.get(path))
            if _same(first, after.get(path)):
                del changes[path]  # it is as it was: nothing is to be taken back
        more = found.not_kept + max(len(paths) - _CHANGES_MAX, 0)
        self.write(replace(found, changes=changes, not_kept=more))
        self._clear()

    # --- turns ---

    def settled(self) -> tuple[Checkpoint, ...]:
        """Return all of them, oldest first, with what calls changed that were cut short."""
        if not self._folder.is_dir():
            return ()
        with self.locked():
            try:
                self._settle_calls()
            except TooLargeError as error:
                fields = {"folder": str(self._folder), "reason": str(error)}
                logger.warning("what a call changed cannot be known", extra=fields)
            return self.checkpoints()

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return all of them, oldest first; one that cannot be read is left out and logged."""
        found: list[Checkpoint] = []
        for file in sorted(self._turns.glob("*.json")):
            try:
                found.append(_TURN.decode(file.read_bytes()))
            except (ValueError, OSError) as error:
                fields = {"file": str(file), "reason": str(error)}
                logger.warning("a checkpoint cannot be read and is left out", extra=fields)
        return tuple(each for each in found if each.changes)

    def checkpoint(self, number: int) -> Checkpoint:
        """Return one.

        Raises:
            UnknownCheckpointError: There is none of this number.
        """
        known = self.checkpoints()
        found = next((each for each in known if each.number == number), None)
        if found is None:
            numbers = ", ".join(str(each.number) for each in known) or "none"
            msg = f"there is no checkpoint {number}; there are: {numbers}"
            raise UnknownCheckpointError(msg)
        return found

    def write(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, in the place of what it was before.

        Raises:
            OSError: What it was stands there still.
        """
        self._turns.mkdir(parents=True, exist_ok=True)
        _put(self._turns / f"{checkpoint.number:08}.json", encode(checkpoint))

    def content(self, state: FileState) -> bytes | None:
        """Return what a file held; None where that is gone or damaged."""
        try:
            data = (self._blobs / state.digest).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == state.digest else None

    @contextmanager
    def locked(self) -> Generator[None]:
        """Be the only one who reads and writes notes of this workspace.

        Raises:
            OSError: The folder cannot be made.
        """
        make_private(self._folder)
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # --- contents ---

    def _scan(self) -> Files:
        self._blobs.mkdir(exist_ok=True)
        return self._scanner.files(self._keep)

    def _keep(self, digest: str, data: bytes) -> None:
        file = self._blobs / digest
        if not file.exists():
            _put(file, data)

    def _clear(self) -> None:
        """Let the oldest turns go where there are too many, and contents that nobody names."""
        files = sorted(self._turns.glob("*.json"))
        sizes = {each.name: each.stat().st_size for each in self._blobs.iterdir()}
        if len(files) <= TURNS_MAX and sum(sizes.values()) <= STORE_MAX_BYTES:
            return
        kept = [*self.checkpoints()][-TURNS_MAX:]
        while len(kept) > 1 and sum(sizes.get(d, 0) for d in _named(kept)) > STORE_MAX_BYTES // 2:
            kept.pop(0)
        numbers = {each.number for each in kept}
        for file in files:
            if file.stem.isdecimal() and int(file.stem) not in numbers:
                file.unlink()
        named = _named(kept) | self._named_by_calls()
        for name in sizes.keys() - named:
            (self._blobs / name).unlink(missing_ok=True)
        self._scanner.forget()

    def _named_by_calls(self) -> set[str]:
        named: set[str] = set()
        for file in self._calls.glob("*.json"):
            with suppress(ValueError, OSError):
                before = _CALL.decode(file.read_bytes()).before
                named |= {state.digest for state in before.values()}
        return named


def _same(one: FileState | None, other: FileState | None) -> bool:
    return other is None if one is None else one.is_like(other)


def _named(checkpoints: list[Checkpoint]) -> set[str]:
    return {
        state.digest
        for each in checkpoints
        for change in each.changes.values()
        for state in (change.before, change.after)
        if state is not None
    }


def _put(file: Path, data: bytes) -> None:
    """Write a file whole, or not at all."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            stream.write(data)
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
