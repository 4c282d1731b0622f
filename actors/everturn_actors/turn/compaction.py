"""Has older turns of a session summarised: one summary at a time, beside the turns.

Nothing waits for a summary but who asked for it by hand. Messages that arrive meanwhile are none of
its business: it tells of whole turns that were finished when it began.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.lowlevel
from anyio import to_thread
from msgspec import Struct, field, structs

from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.render import LONG_MESSAGES, Renderer
from everturn_actors.context.summaries import (
    SummaryTask,
    compaction_request,
    covered_text,
    live_request,
    summary_task,
)
from everturn_actors.errors import (
    ActorStoppedError,
    CommandFailedError,
    CoreError,
    JournalError,
)
from everturn_actors.events import Event, Summarised
from everturn_actors.faults import is_cancelled
from everturn_actors.model import PromptFingerprint, Usage
from everturn_actors.ports import Agent, ModelStatisticsStore, SessionStore
from everturn_actors.protocol.background import Background
from everturn_actors.protocol.commands import Compacted, Summary
from everturn_actors.protocol.mailbox import Mailbox, ReplySlot
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.model_call import Timing
from everturn_actors.turn.summaries import Patience, summarise

logger = logging.getLogger(__name__)

IDLE_S = 30.0  # before the provider's cache goes, an idle conversation is summarised
IDLE_SHARE = 3  # where the last prompt was more than a third of the window
INSTRUCTION_TOKENS = 600  # of the request for a summary behind what was sent
USELESS_TURNS = 8  # after a summary that was of no use, until the policy may have another one
NOTHING = "Nothing to compact yet — conversation is within the token budget."
NOT_SMALLER = (
    "Nothing was changed: the next prompt has about {before:,} tokens, and with a summary in place"
    " of its oldest messages it would have {after:,}."
)
WENT_ON = "The conversation went on without this summary."


class Compactor(Struct, kw_only=True):
    """The summaries of one session."""

    session_id: str
    store: SessionStore
    model_statistics: ModelStatisticsStore
    timing: Timing
    renderer: Renderer
    mailbox: Mailbox
    present: Callable[[], SessionState]
    "Returns the session's present state."
    considered: int = 0
    "The newest turn after which it was asked whether there is need."
    _useless_at: int | None = None
    "The turn after which a summary would not have made the context smaller."
    _idle: anyio.CancelScope | None = None
    "Of the wait for the end of the cache; None = nothing waits for that."
    _scope: anyio.CancelScope | None = None
    _asked: list[ReplySlot[Compacted]] = field(default_factory=list[ReplySlot[Compacted]])
    "Who waits for the summary that is being made."

    @property
    def busy(self) -> bool:
        """Whether a summary is being made."""
        return self._scope is not None

    async def consider(self, agent: Agent | None, tasks: Background) -> None:
        """Begin a summary if the session's policy wants one, now that no turn runs.

        A fault of the policy, or of what it is asked with, costs this summary alone.
        """
        state = self.present()
        if self.busy or agent is None or agent.summariser is None or state.status == "ended":
            return
        if state.turns == self.considered:
            return
        self.considered = state.turns
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._useless_at is not None and state.turns < self._useless_at + USELESS_TURNS:
            return
        try:
            task = await self._wanted(state, agent)
        except Exception:
            logger.exception(
                "no summary could be considered", extra={"session_id": self.session_id}
            )
            return
        if task is not None:
            self._begin(task, agent, tasks)
        elif self._may_be_idle(state, agent):
            self._idle = anyio.CancelScope()
            tasks.start_soon(self._when_idle, self._idle, agent, tasks)

    def _may_be_idle(self, state: SessionState, agent: Agent) -> bool:
        """Whether so much was sent that a summary may be worth it before the cache goes."""
        model, reported = agent.spec.model, state.reported
        window = input_window(model, self.model_statistics.of(model))
        return model.cache_life_s > IDLE_S and reported.input_tokens * IDLE_SHARE >= window

    async def _when_idle(self, scope: anyio.CancelScope, agent: Agent, tasks: Background) -> None:
        """Begin a summary when the conversation is idle until the provider's cache is about to go.

        The cache serves it now, and the next request is paid for whole in any case. A turn that
        ends meanwhile makes it begin anew.
        """
        turns = self.present().turns
        with scope:
            await self.timing.clock.sleep(agent.spec.model.cache_life_s - IDLE_S)
        if not self._rests(scope, turns):
            return
        try:
            task = await self._wanted(self.present(), agent, is_cold=True)
        except Exception:
            logger.exception("no summary at rest", extra={"session_id": self.session_id})
            return
        # To find it out takes a moment, in which the conversation may have gone on.
        if task is not None and self._rests(scope, turns):
            self._begin(task, agent, tasks)

    def _rests(self, scope: anyio.CancelScope, turns: int) -> bool:
        """Whether nothing has happened since the wait for the end of the cache began."""
        state = self.present()
        is_over = scope.cancel_called or state.turns != turns or state.open_turn is not None
        return not (is_over or self.busy or state.status == "ended")

    def ask(
        self, focus: str, answer: ReplySlot[Compacted], agent: Agent, tasks: Background
    ) -> None:
        """Begin a summary because somebody wants it; one that is being made will do."""
        if self.busy:
            self._asked.append(answer)
            return
        try:
            task = self._possible(self.present(), agent, focus)
        except Exception as error:
            logger.exception("no summary can be made", extra={"session_id": self.session_id})
            answer.fail(CommandFailedError(self.session_id, error))
            return
        if task is None:
            answer.give(Compacted(done=False, text=NOTHING))
            return
        self._asked.append(answer)
        self._begin(task, agent, tasks)

    async def _wanted(
        self, state: SessionState, agent: Agent, *, is_cold: bool = False
    ) -> SummaryTask | None:
        """Return the summary that the session's policy wants now."""
        retry_at = state.reductions.retry_at
        if retry_at is not None and self.timing.clock.now() < retry_at:
            return None
        statistics = self.model_statistics.of(agent.spec.model)
        conversation = state.conversation
        if not is_cold and self.renderer.is_far(conversation, agent.spec, statistics):
            return None
        tools = agent.offered(statistics, state.open_turn)
        # Where turns have left, all of the history is built anew: in parts, so that others go on.
        for _ in self.renderer.begin(conversation, agent.spec, tools, statistics):
            await anyio.lowlevel.checkpoint()
        finding = self.renderer.finding_older(
            conversation, agent.spec, tools, statistics, is_cold=is_cold
        )
        if finding is None:
            return None
        is_long = conversation.held_messages >= LONG_MESSAGES
        older = await to_thread.run_sync(finding) if is_long else finding()
        return summary_task(conversation, older_turns=older) if older else None

    def _possible(self, state: SessionState, agent: Agent, focus: str) -> SummaryTask | None:
        """Return the summary that somebody can have now."""
        statistics = self.model_statistics.of(agent.spec.model)
        tools = agent.offered(statistics, state.open_turn)
        older = self.renderer.compactable_turns(state.conversation, agent.spec, tools, statistics)
        return summary_task(state.conversation, older_turns=older, focus=focus) if older else None

    def close(self, reason: CoreError | None) -> None:
        """Give up what is being made; it is made again when it is needed.

        Args:
            reason: Why; None where the session goes on without it.
        """
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None
        self._answer(reason or Compacted(done=False, text=WENT_ON))

    def _begin(self, task: SummaryTask, agent: Agent, tasks: Background) -> None:
        self._scope = anyio.CancelScope()
        tasks.start_soon(self._make, self._scope, task, agent)

    async def _make(self, scope: anyio.CancelScope, task: SummaryTask, agent: Agent) -> None:
        """Make one, and tell whoever asked for it; whatever it fails of costs this one alone."""
        outcome: Compacted | Exception = ActorStoppedError()
        try:
            with scope:
                outcome = await self._made(task, agent)
        except ActorStoppedError as error:
            outcome = error
        except JournalError as error:
            # The session goes on without: what is full or failing is told by the next message.
            logger.warning(
                "a summary could not be kept",
                extra={"session_id": self.session_id, "error": str(error)},
            )
            outcome = error
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            outcome = self._fault(error)
        except Exception as error:  # noqa: BLE001 - a boundary; logged there
            outcome = self._fault(error)
        finally:
            if self._scope is scope:
                self._scope = None
                self._answer(outcome)

    def _fault(self, error: BaseException) -> CommandFailedError:
        logger.error(
            "a summary failed by a fault",
            extra={"session_id": self.session_id, "error": str(error)},
            exc_info=error,
        )
        return CommandFailedError(self.session_id, error)

    async def _made(self, task: SummaryTask, agent: Agent) -> Compacted:
        model = agent.summariser.model if agent.summariser else agent.spec.model
        statistics = self.model_statistics.of(model)
        timeout_s, tries = self.renderer.summary_limits(agent.spec)
        body = await summarise(
            self._behind_what_was_sent(task, agent),
            agent.summariser,
            clock=self.timing.clock,
            patience=Patience(timeout_s=timeout_s, tries=tries),
            window_tokens=input_window(model, statistics),
            scale=statistics.scale,
        )
        if body.error:
            logger.warning(
                "no model wrote a summary",
                extra={"session_id": self.session_id, "error": body.error, "tries": body.tries},
            )
        if agent.spec.session.compaction == "discard":
            body = structs.replace(body, path=f"summarised-{body.last_turn}.md")
        if self.present().status == "ended":
            return Compacted(done=False, text=WENT_ON)
        before, after = await self._predicted(body, agent)
        if after >= before and not self._tells_of_hidden(task):
            self._useless_at = self.present().turns
            logger.info(
                "a summary would not make the context smaller",
                extra={"session_id": self.session_id, "before": before, "after": after},
            )
            return Compacted(
                done=False,
                tokens_before=before,
                tokens_after=before,
                text=NOT_SMALLER.format(before=before, after=after),
            )
        if body.path:
            text = await to_thread.run_sync(covered_text, task)
            await self.store.save_result(self.session_id, body.path, text)
        recorded = await self._record(body)
        if not recorded:
            return Compacted(done=False, text=WENT_ON)
        return Compacted(
            done=True,
            messages=body.messages,
            tokens_before=before,
            tokens_after=after,
            source=body.source,
            text=body.error and f"No model could write the summary: {body.error}",
        )

    def _behind_what_was_sent(self, task: SummaryTask, agent: Agent) -> SummaryTask:
        """Return the task with a request that the provider's cache serves, where there is one."""
        state, writer = self.present(), agent.summariser
        conversation, model = state.conversation, agent.spec.model
        is_warm = state.replied_at is not None and (
            (self.timing.clock.now() - state.replied_at).total_seconds() < model.cache_life_s
        )
        reported = state.reported
        caches = reported.cached_tokens or reported.cache_written_tokens
        if writer is None or writer.model != model:
            return task
        if not model.compacts and not (is_warm and caches):
            return task
        statistics = self.model_statistics.of(model)
        tools = agent.offered(statistics, state.open_turn)
        made = self.renderer.render(conversation, agent.spec, tools, statistics)
        is_same = bool(state.fingerprint.prefix) and not made.fingerprint.is_cache_miss
        budget = made.budget
        has_room = made.tokens + INSTRUCTION_TOKENS + budget.reserve_tokens <= budget.window_tokens
        kept = next((t for t in conversation.turns if t.number > task.last_turn), None)
        first = kept.users[0] if kept is not None else None
        has_pictures = bool(made.pictures.shown)
        if model.compacts and made.policy.compacts and not (state.open_turn or has_pictures):
            reserve = budget.reserve_tokens
            asked = compaction_request(task, made.request, first, output_tokens=reserve)
            task = structs.replace(task, compaction=asked)
        if not (is_warm and caches):
            return task
        # What is from outside is given to the writer as data alone, between tags.
        if made.outside.sources or task.outside or has_pictures or state.open_turn:
            return task
        if not is_same or not has_room:
            return task
        live = live_request(task, made.request, first, output_tokens=budget.reserve_tokens)
        return structs.replace(task, live=live)

    def _tells_of_hidden(self, task: SummaryTask) -> bool:
        """Whether it is the policy's own, and tells of turns that the model sees no more.

        That costs something, whatever it says. Who asks for one by hand wants a smaller context.
        """
        return not self._asked and task.turns[0].number < self.present().reductions.cut_turn

    async def _record(self, body: Summarised) -> bool:
        answer = self.mailbox.put(Summary(body), own=True)
        with anyio.CancelScope(shield=True):  # what was begun to be written is waited for
            await answer.wait()
        return await answer.wait()

    async def _predicted(self, body: Summarised, agent: Agent) -> tuple[int, int]:
        """Return what the next prompt would cost without a summary and with it, in tokens.

        Both are estimated from nothing: what the provider reported for the last prompt tells of the
        one and not of the other. In a thread, as both are rendered whole.
        """
        state = self.present()
        statistics = self.model_statistics.of(agent.spec.model)
        tools = agent.offered(statistics, state.open_turn)
        now = self.timing.clock.now()

        def tokens(state: SessionState) -> int:
            unsent = structs.replace(
                state.conversation, fingerprint=PromptFingerprint(), reported=Usage()
            )
            return Renderer().predicted_tokens(unsent, agent.spec, tools, statistics)

        def predict() -> tuple[int, int]:
            made = apply(state, Event(seq=state.last_seq + 1, at=now, body=body))
            return tokens(state), tokens(made)

        return await to_thread.run_sync(predict)

    def _answer(self, outcome: Compacted | Exception) -> None:
        asked, self._asked = self._asked, []
        for answer in asked:
            if isinstance(outcome, Compacted):
                answer.give(outcome)
            else:
                answer.fail(outcome)
