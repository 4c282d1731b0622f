"""What the store holds of one session: loaded, and saved again where a snapshot is due."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from anyio import to_thread

from everturn_actors.errors import CoreError, FencedError
from everturn_actors.events import Event
from everturn_actors.model import Labels
from everturn_actors.ports import Loaded
from everturn_actors.protocol.commands import AnyCommand, GetStatus
from everturn_actors.session.runtime import Runtime
from everturn_actors.state.recovery import Recovered, recover
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

SNAPSHOT_EVENTS = 400  # are replayed in 5 ms; a snapshot takes 2 ms to write, and six syncs
MESSAGES_PER_EVENT = 3  # that a snapshot holds are written in the time that an event is replayed

REPLAY_EVENTS = 500  # some 6 ms; a log without a snapshot may have any number

_PLAIN = ("active", (), Labels())


class Snapshots:
    """Knows what is saved of a session, and saves more of it where that is worth it."""

    def __init__(self, session_id: str, runtime: Runtime) -> None:
        """Begin with nothing saved, and nothing to save."""
        self._session_id, self._runtime = session_id, runtime
        self._checkpoint: SessionState | None = None
        self._saved: SessionState | None = None
        self._has_written = False
        self._told = 0
        "How far the log goes, as others said; it was loaded since."

    def check_end(self, state: SessionState | None, commands: Iterable[AnyCommand]) -> None:
        """See whether somebody knows of a longer log than what was loaded.

        Raises:
            FencedError: Somebody does. Once for each length: what a log does not hold any more is
                not looked for again and again.
        """
        ends = [each.at_least for each in commands if isinstance(each, GetStatus)]
        told, known = max(ends, default=0), state.last_seq if state is not None else 0
        if told > max(known, self._told):
            self._told = told
            msg = f"the log of session {self._session_id} goes to event {told}, as others know"
            raise FencedError(msg)

    async def load(self) -> tuple[SessionState | None, tuple[Event, ...]]:
        """Return the session, and the events that the log holds of it behind its snapshot.

        None and nothing where the store knows nothing of it.

        Raises:
            JournalError: Its files cannot be read, or are damaged.
        """
        self._saved = self._checkpoint = None  # of another load; what is stored now counts
        loaded = await self._runtime.store.load(self._session_id)
        if loaded is None:
            return None, ()
        for what, texts in (
            ("a journal was repaired", loaded.repairs),
            ("a part of a session's history is lost", loaded.losses),
        ):
            for text in texts:
                logger.warning(what, extra={"session_id": self._session_id, "what": text})
        recovered = await replayed(loaded)  # the same `apply` as when it happened
        self._saved = loaded.snapshot
        self._checkpoint = recovered.checkpoint if recovered else None
        return recovered.state if recovered else None, loaded.events

    def written(self, checkpoint: SessionState | None) -> None:
        """Take note of an append, and of the checkpoint that it led past; None = past none."""
        self._has_written = True
        self._checkpoint = checkpoint or self._checkpoint

    def is_due(self, state: SessionState | None) -> bool:
        """Whether the checkpoint moved, and enough events or what lists go by followed.

        Enough to replay for as long as the next snapshot takes to write: a turn of a long
        conversation then costs what one of a short conversation does, and to wake it at most twice
        what its snapshot alone takes to read.
        """
        checkpoint, saved = self._checkpoint, self._saved
        if checkpoint is None or state is None:
            return False
        if saved is None:
            # A short log is read faster than a snapshot.
            return state.last_seq >= SNAPSHOT_EVENTS or _listed(state) != _PLAIN
        if checkpoint.last_seq <= saved.last_seq:  # only what is checkpointed is worth a file
            return False
        enough = max(SNAPSHOT_EVENTS, checkpoint.held_messages // MESSAGES_PER_EVENT)
        return state.last_seq - saved.last_seq >= enough or _listed(state) != _listed(saved)

    async def save(self) -> None:
        """Save the newest checkpoint.

        Raises:
            FencedError: Another writer was there.
        """
        await self._save(self._checkpoint)

    async def put_away(self, state: SessionState | None, *, is_moving: bool = False) -> None:
        """Save the state as it is, and take the mark back where nothing is left to do.

        Args:
            state: The state.
            is_moving: Whether another process waits for the session: it replays what a snapshot
                would take longer to write.

        Raises:
            FencedError: Another writer was there.
        """
        # Who only looked has nothing to put away.
        if self._has_written and not (is_moving and self._is_near(state)):
            await self._save(state)
        if state is None or not state.is_due:
            try:
                await self._runtime.store.mark_passive(self._session_id)
            except Exception as error:  # noqa: BLE001 - a boundary: the mark is a hint
                self.log_failure("the mark of a passive session stays", error)

    def _is_near(self, state: SessionState | None) -> bool:
        """Say whether few events follow the saved snapshot."""
        saved = self._saved.last_seq if self._saved is not None else 0
        return state is None or state.last_seq - saved < SNAPSHOT_EVENTS

    async def _save(self, state: SessionState | None) -> None:
        """Save a snapshot if it says more than the saved one.

        A failure is logged and tried again later: the log has everything.
        """
        if state is None or (self._saved is not None and state.last_seq <= self._saved.last_seq):
            return
        agent = self._runtime.agent(state.key.agent)
        compaction = agent.spec.session.compaction if agent else "disabled"
        try:
            await self._runtime.store.save_snapshot(state, compaction=compaction)
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001 - a boundary: nobody waits for a snapshot
            self.log_failure("a snapshot could not be saved", error)
        else:
            self._saved = state

    def log_failure(self, what: str, error: Exception) -> None:
        """Log what failed and is tried again; with the traceback where the text may not do."""
        logger.error(
            what,
            extra={"session_id": self._session_id, "error": str(error)},
            exc_info=None if isinstance(error, CoreError) else error,
        )


def _listed(state: SessionState) -> tuple[str, tuple[str, ...], Labels]:
    """Return what lists go by, which read the head of the snapshot and nothing else."""
    return state.status, state.shared_with, state.labels


async def replayed(loaded: Loaded) -> Recovered | None:
    """Replay what was loaded; beside the event loop where it is long.

    Raises:
        CorruptJournalError: No version could have written such a log.
    """
    if len(loaded.events) > REPLAY_EVENTS:
        return await to_thread.run_sync(recover, loaded.snapshot, loaded.events)
    return recover(loaded.snapshot, loaded.events)
