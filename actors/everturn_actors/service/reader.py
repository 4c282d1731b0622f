"""What can be read of sessions, whether they are active or not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from anyio import to_thread
from msgspec.structs import replace

from everturn_actors.context.beside import beside_notes
from everturn_actors.context.estimation.windows import hint_notes, input_window
from everturn_actors.context.past.explain import Explanation
from everturn_actors.context.render import render
from everturn_actors.context.report import ContextReport, context_report
from everturn_actors.errors import JournalError, UnknownRequestError, UnknownSessionError
from everturn_actors.events import (
    Announced,
    ApprovalDecided,
    ChunkMarked,
    Event,
    ModelReplied,
)
from everturn_actors.gaps import Gap, jumps
from everturn_actors.model import Attachment, ChosenModel
from everturn_actors.ports import (
    ALL_SESSIONS,
    Agent,
    Place,
    SessionFilter,
    SessionStore,
    SessionSummary,
)
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.feed import TakeDelta, Update
from everturn_actors.protocol.subscription import follow, log_of
from everturn_actors.session.runtime import Runtime
from everturn_actors.session.snapshots import replayed
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import type_of
from everturn_actors.turn.replay import Known, RequestReplay

EXPLAIN_PAGE_EVENTS = 1000  # some 50 ms of a thread: what a client that left can still cost
LOOK_BACK_EVENTS = 500  # in which a decision that comes too late finds out why


class SessionReader:
    """Reads sessions and their histories. Starts no actor, writes nothing."""

    def __init__(self, *, store: SessionStore, runtime: Runtime, registry: Actors) -> None:
        """Only `open_service` makes one."""
        self._store, self._runtime, self._registry = store, runtime, registry

    async def view(self, session_id: str) -> SessionState:
        """Return the present state of a session. Starts no actor, writes nothing.

        A passivated one is shown as its files have it: a turn that a crash cut short as open, and a
        session that nobody ended as not ended, however long ago it was used.

        Raises:
            UnknownSessionError: There is none of this id.
            JournalError: It cannot be read.
        """
        state = self._registry.present(session_id)
        if state is not None:
            return state
        loaded = await self._store.inspect(session_id)
        recovered = loaded and await replayed(loaded)
        # It may have become active, and gone on, while its files were read.
        state = self._registry.present(session_id)
        if state is not None:
            return state
        if not recovered:
            raise UnknownSessionError(session_id)
        return recovered.state

    async def summary(self, session_id: str) -> SessionSummary | None:
        """Return what a list says of a session; None where there is none, or it cannot be read.

        Costs the same however much is stored of it. No actor is started for it.
        """
        state = self._registry.present(session_id)
        if state is None:
            return await self._store.summary(session_id)
        return SessionSummary.of(state)

    async def history(self, session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """Return up to `limit` events with a seq above `after` from the log, oldest first.

        What compaction archived is included, what it discarded is not: numbers may jump, see
        `explain_gaps`.
        """
        return await self._store.read(session_id, after=after, limit=limit)

    async def explain_gaps(
        self, session_id: str, runs: Sequence[tuple[int, int]]
    ) -> tuple[Gap, ...]:
        """Return why events are missing where the numbers of a history jump, ascending.

        Args:
            session_id: The session.
            runs: First and last number of each run that is missing, see `gaps.jumps`.

        Raises:
            JournalError: It cannot be read.
        """
        gaps: list[Gap] = []
        for first, last in runs:
            gaps += await self._store.explain_gap(session_id, first, last)
        return tuple(gaps)

    async def media(self, session_id: str, name: str) -> tuple[Attachment, bytes] | None:
        """Return a file that came with a message, and what is known of it; None where it is gone.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: It cannot be read.
        """
        state = await self.view(session_id)
        data = await self._store.read_media(session_id, name)
        if data is None:
            return None
        turn = state.open_turn
        users = (
            *state.waiting,
            *(turn.heard if turn else ()),
            *(user for each in reversed(state.held_turns) for user in each.heard),
        )
        known = (each for user in users for each in user.attachments if each.name == name)
        unheld = Attachment(name=name, media_type=type_of(name), size_bytes=len(data))
        return next(known, unheld), data

    async def result(self, session_id: str, name: str) -> str | None:
        """Return the whole text of a large result (`CallFinished.path`); None where it is gone.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: It cannot be read.
        """
        if await self.summary(session_id) is None:
            raise UnknownSessionError(session_id)
        return await self._store.read_result(session_id, name)

    async def sessions(
        self, *, after: str = "", limit: int = 50, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return wanted sessions with an id below `after` ("" = from the newest), newest first."""
        return await self._store.sessions(after=after, limit=limit, wanted=wanted)

    async def recent(
        self, *, before: Place | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return wanted sessions behind a place, the one in which something happened last first."""
        return await self._store.recent(before=before, limit=limit, wanted=wanted)

    async def open_turns(self) -> tuple[SessionState, ...]:
        """Return the sessions with a turn that is not finished, in no order.

        Complete also after a restart, whether they go on by themselves or not: sessions with an
        open turn are marked on disk before it begins. One that cannot be read is left out.
        """
        found: list[SessionState] = []
        for session_id in await self._store.active():
            try:
                state = await self.view(session_id)
            except (UnknownSessionError, JournalError):
                continue
            if state.open_turn is not None and state.status != "ended":
                found.append(state)
        return tuple(found)

    async def watch(
        self, session_id: str, *, after: int, take: TakeDelta | None = None
    ) -> AsyncGenerator[Update]:
        """Yield all events with a seq above `after`, then what comes, to the end of the session.

        Looking on changes nothing: no actor starts, a paused turn stays paused (see `resume`), and
        one that nobody else waits for is paused all the same. Ends when the service stops. `take`
        is asked first for each piece of a reply, see `TakeDelta`.

        Raises:
            UnknownSessionError: There is no such session.
            ActorFailedError: It failed meanwhile.
            JournalError: It cannot be read.
        """
        feed = self._registry.feed(session_id)
        state = await self.view(session_id)
        if state.status == "ended" and after >= state.last_seq:
            return
        followed = follow(
            feed,
            # Nobody has seen what is not there. All who follow a session of another node share one
            # way to it, which begins where the first of them stands.
            min(after, state.last_seq),
            log_of(self._store, session_id),
            last_seq=state.last_seq,
            pieces="live",
            take=take,
            is_over=lambda: state.status == "ended",  # only labels follow
            waits=False,
        )
        async with aclosing(followed) as updates:
            async for update in updates:
                yield update

    async def context(self, session_id: str) -> ContextReport:
        """Return what a session's next request would hold, and what is hidden from it.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownAgentError: Its agent is gone.
            ContextDoesNotFitError: No request would fit; the text names the parts.
            JournalError: It cannot be read.
        """
        state = await self.view(session_id)
        return await self._context_of(state, state.model)

    async def context_with(self, session_id: str, model: ChosenModel | None) -> ContextReport:
        """Return what a session's next request would hold if a model were chosen.

        Raises: As `context`; and UnusableModelError.
        """
        return await self._context_of(await self.view(session_id), model)

    async def _context_of(self, state: SessionState, model: ChosenModel | None) -> ContextReport:
        agent = self._agent(state.key.agent, model)
        statistics = self._runtime.model_statistics.of(agent.spec.model)
        now = self._runtime.now()

        def report() -> ContextReport:
            conversation, model = state.conversation, agent.spec.model
            tools = agent.offered(statistics, conversation.current)
            rendered = render(conversation, agent.spec, tools, statistics)
            notes = (*beside_notes(conversation), *hint_notes(model, statistics))
            if model.tokenizer:
                notes += (f"near the edge of the window prompts are counted by {model.tokenizer}",)
            if statistics.limit_tokens and rendered.budget.window_tokens > input_window(
                model, statistics
            ):
                notes += ("prompt and tools alone are larger, so requests are made without it",)
            found = context_report(
                rendered,
                conversation,
                statistics=statistics,
                cache_misses=state.cache_misses,
                now=now,
                has_summariser=agent.summariser is not None,
            )
            return replace(found, notes=notes)

        return await to_thread.run_sync(report)

    async def explain(self, session_id: str, *seqs: int) -> tuple[Explanation, ...]:
        """Return why past requests were as they were: those at events `seqs` or next in their turn.

        Reads the log of the session up to there, page by page; a caller that is cancelled waits
        for the page that is being read and for no other.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownRequestError: There is no request there, or events before it are missing.
            UnknownAgentError: Its agent is gone.
            ContextDoesNotFitError: The agent of today has no room for it.
            JournalError: The log cannot be read.
        """
        state = await self.view(session_id)
        replay = RequestReplay(session_id, seqs)
        after, is_found = 0, False
        while not is_found and after < state.last_seq:
            limit = min(EXPLAIN_PAGE_EVENTS, state.last_seq - after)
            events = await self._store.read(session_id, after=after, limit=limit)
            gone = jumps((event.seq for event in events), after=after)
            if not events:
                gone = [(after + 1, state.last_seq)]
            before = [event for event in events if not gone or event.seq < gone[0][0]]
            is_found = await to_thread.run_sync(replay.read, before)
            if gone and not is_found:
                gaps = await self.explain_gaps(session_id, gone[:1])
                why = "; ".join(gap.text for gap in gaps)
                which = f"{why}. No request after them can be made again"
                raise UnknownRequestError(session_id, seqs[0], which)
            after = events[-1].seq if events else state.last_seq

        def known(model: ChosenModel | None) -> Known:
            agent = self._agent(state.key.agent, model)
            statistics = self._runtime.model_statistics.of(agent.spec.model)
            return agent.spec, agent.offered(statistics, None), statistics

        return await to_thread.run_sync(replay.explanations, known)

    def _agent(self, name: str, model: ChosenModel | None) -> Agent:
        agents = self._runtime.agents
        return agents.get(name) if model is None else agents.get_with(name, model)

    async def said_in(self, session_id: str, platform_id: str) -> str | None:
        """Return what a message says that a session sent to its people; None = it is none of them.

        Of a long reply that is its text, whichever of its messages is meant; empty for a file. The
        newest messages are looked at.

        Args:
            session_id: The session.
            platform_id: What the platform calls the message.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: It cannot be read.
        """
        state = await self.view(session_id)
        after = max(0, state.last_seq - LOOK_BACK_EVENTS)
        events = await self._store.read(session_id, after=after, limit=LOOK_BACK_EVENTS)
        marks = (each.body for each in reversed(events) if isinstance(each.body, ChunkMarked))
        item = next((each.item for each in marks if each.platform_id == platform_id), 0)
        if not item:
            return None
        (said,) = await self._store.read(session_id, after=item - 1, limit=1) or (None,)
        body = said.body if said is not None and said.seq == item else None
        return body.text if isinstance(body, ModelReplied | Announced) else ""

    async def decided_before(self, session_id: str, call_id: str) -> ApprovalDecided | None:
        """Return what became of an approval whose step is over; None where none is near."""
        state = await self.view(session_id)
        after = max(0, state.last_seq - LOOK_BACK_EVENTS)
        events = await self._store.read(session_id, after=after, limit=LOOK_BACK_EVENTS)
        decided = (e.body for e in reversed(events) if isinstance(e.body, ApprovalDecided))
        return next((body for body in decided if body.call_id == call_id), None)
