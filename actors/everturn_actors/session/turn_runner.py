"""The task that works on the open turn of one session: started, stopped, closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.context.render import Renderer
from everturn_actors.errors import ActorStoppedError, CoreError
from everturn_actors.events import Body
from everturn_actors.faults import is_cancelled
from everturn_actors.model import Resolution
from everturn_actors.ports import Agent, ToolContext
from everturn_actors.protocol.background import Background
from everturn_actors.protocol.commands import Pause, RecordTurn, ResolveApproval
from everturn_actors.protocol.feed import Feed, LiveReply
from everturn_actors.protocol.mailbox import Mailbox, ReplySlot
from everturn_actors.scopes import new_scope
from everturn_actors.session.runtime import Runtime
from everturn_actors.state.recovery import close_turn
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.loop import run_turn, too_slow
from everturn_actors.turn.media import MediaReader

_CloseAs: TypeAlias = Literal["", "cancel", "pause", "stopped"]


class _Task(Struct, eq=False):
    """The work on one turn."""

    number: int
    scope: anyio.CancelScope = field(default_factory=new_scope)
    "Ends it: when it is stopped, or at the deadline of the turn."
    close_as: _CloseAs = ""
    "What becomes of the turn when the work is stopped; empty = nobody has stopped it."
    by: str = ""
    "Who stopped it."


class TurnRunner:
    """Works on the open turn; implements `TurnHost`, what a turn needs of its session."""

    def __init__(
        self,
        *,
        session_id: str,
        runtime: Runtime,
        mailbox: Mailbox,
        feed: Feed,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        """Prepare it; only the actor makes one.

        Args:
            session_id: The session.
            runtime: What all actors share.
            mailbox: The actor's: what the turn records goes through it.
            feed: Where followers read.
            changed: Waits until something new is durable.
        """
        self._session_id, self._runtime = session_id, runtime
        self._mailbox, self._feed = mailbox, feed
        self._changed = changed
        self._media = MediaReader(runtime.store, session_id)
        self._task: _Task | None = None
        self.running = 0
        "The turn that is worked on; 0 = none is."
        self.left = 0
        "The turn that waits for the next start of the session."
        self.state: SessionState
        "The present state; the actor sets it as soon as the session has begun."
        self.renderer = Renderer()
        "Renders the session's requests."
        self.model_statistics = runtime.model_statistics
        "What was learnt about models."

    # --- the actor's side ---

    @property
    def is_awaited(self) -> bool:
        """Whether the service, when it stops, waits for the turn that is worked on.

        Not for one that waits for a person, for its caller's own tools, or until its model is
        called again: it goes on at the next start.
        """
        if self._task is None or self.state.open_approvals:
            return False
        turn = self.state.open_turn
        if turn is not None and turn.waits_for_caller:
            return False
        outage = turn.outage if turn else None
        return outage is None or self._runtime.now() >= outage.retry_at

    def start(self, number: int, tasks: Background) -> None:
        """Work on the open turn, which has this number."""
        self._task, self.running = _Task(number), number
        tasks.start_soon(self._run, self._task)

    def stop(self, close_as: _CloseAs, by: str = "") -> None:
        """Call the work off; the turn is closed, or paused, through the mailbox."""
        if self._task is not None:
            self._task.close_as, self._task.by = close_as, by
            self._task.scope.cancel()

    def release(self) -> None:
        """Forget the work: it has nothing left to do."""
        self._task, self.running = None, 0

    def reset(self) -> Renderer:
        """Forget all that was known of the session; return what renders its requests from now."""
        self._task, self.running, self.left = None, 0, 0
        self.renderer = Renderer()
        return self.renderer

    def dispose(self) -> None:
        """Let go of everything: the frames of what a turn failed with hold the runner."""
        vars(self).clear()

    async def pause_unless_followed(self, seq: int) -> None:
        """Pause the turn that answers message `seq`, unless somebody follows it in a while."""
        await self._runtime.timing.clock.sleep(self._runtime.leave_grace_s)
        turn = self.state.open_turn
        # Else another turn runs by now.
        waits = turn is not None and any(user.seq == seq for user in turn.heard)
        if waits and not self._feed.followers and self._task and not self._task.close_as:
            self.stop("pause")

    async def _run(self, task: _Task) -> None:
        """Work on a turn; when that is stopped on the way, close or pause the turn."""
        agent = self._runtime.agent(self.state.key.agent, self.state.model)
        port = self._runtime.delivery_ports.get(self.state.key.channel)
        if agent is not None and agent.speaker is not None and port and not port.takes_files:
            agent = replace(agent, speaker=None)  # nobody would hear it
        with self._runtime.observer.answering(self.state, task.number, agent):
            with task.scope:
                if agent is not None:
                    try:
                        await run_turn(self, task.number, agent, self._runtime.timing, task.scope)
                    except ActorStoppedError:
                        if self._task is not task:
                            raise  # another one works on it, or will
                        if not task.close_as and self._mailbox.is_refusing:
                            # The service stops: it goes on at the next start, and not before.
                            self._task, self.running, self.left = None, 0, task.number
                            raise
                        task.close_as = task.close_as or "stopped"
                    else:
                        return
                    finally:
                        self._media.forget()  # images of a turn may be large
            await self._close(task, agent)

    async def _close(self, task: _Task, agent: Agent | None) -> None:
        """Close, or pause, a turn that was stopped on the way or that nobody can work on."""
        turn = self.state.open_turn
        if turn is None or turn.number != task.number:
            return  # it came to its end in the same moment
        if agent is None:
            why = self._runtime.find_agent(self.state.key.agent, self.state.model)
            error = "its agent was away for a moment" if isinstance(why, Agent) else str(why)
            await self.record(*close_turn(turn, "failed", error))
        elif not task.close_as:
            # Its deadline ended it: nobody else did.
            await self.record(*close_turn(turn, "failed", too_slow(agent), partial=self.partial))
        elif task.close_as == "stopped":
            await self.record(*close_turn(turn, "failed", "what it asked for had stopped"))
        elif task.close_as == "cancel":
            error, partial = "cancelled by its user", self.partial  # what was read is in the log
            await self.record(*close_turn(turn, "cancelled", error, task.by, partial=partial))
        elif task.close_as == "pause":
            # The decision closes what was cut short.
            await self._mailbox.put(Pause(), own=True).wait()

    # --- the turn's side (TurnHost) ---

    @property
    def tool_context(self) -> ToolContext:
        """Where calls of this session run."""
        state = self.state
        return ToolContext(
            session_id=self._session_id,
            key=state.key,
            store=self._runtime.store,
            conversation=state.conversation,
            principal=state.principal,
            shared_with=state.shared_with,
        )

    async def read_media(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the bytes of the session's images of these names."""
        return await self._media.read(names)

    async def record(self, *bodies: Body) -> None:
        """Make events of the running turn durable and apply them.

        Raises:
            ActorStoppedError: They are not; the actor ends, of that or of something else.
        """
        await _answered(self._mailbox.put(RecordTurn(bodies), own=True))

    async def resolve(
        self, call_id: str, resolution: Resolution, *, by: str = "", answer: str = ""
    ) -> None:
        """Settle an approval, unless somebody did in the same moment; as `record`."""
        command = ResolveApproval(
            call_id=call_id, resolution=resolution, by=by, answer=answer, own=True
        )
        await _answered(self._mailbox.put(command, own=True))

    async def until_changed(self) -> None:
        """Wait until something new is durable."""
        await self._changed()

    def begin_reply(self, turn: int, step: int) -> LiveReply:
        """Begin to show the text of a model call."""
        return self._feed.begin_reply(turn, step)

    def add_text(self, live: LiveReply, text: str) -> None:
        """Show a piece of it."""
        self._feed.add_text(live, text)

    @property
    def partial(self) -> str:
        """What was shown of a model call that has not ended in a reply; empty = nothing."""
        live = self._feed.live
        return live.text if live is not None else ""


async def _answered(answer: ReplySlot[None]) -> None:
    """Wait for what a task of the actor itself asked for.

    Not cancelled half way: whoever closes the turn has to know what stands in its log. The
    actor answers or refuses whatever is in its mailbox when it stops, so this ends.

    Raises:
        ActorStoppedError: What it met ends the actor, and is told to whoever waits for that.
    """
    try:
        try:
            await answer.wait()
        except anyio.get_cancelled_exc_class():
            if not is_cancelled():
                raise
            # The next wait of the task says again that it is cancelled.
            with anyio.CancelScope(shield=True):
                await answer.wait()
    except CoreError as error:
        raise ActorStoppedError from error
