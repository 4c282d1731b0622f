"""The decision of a person: waited for before a call runs, and in the middle of one that asks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.events import ApprovalAsked, CallStarted
from everturn_actors.ids import arguments_hash
from everturn_actors.model import Approval, Resolution, ToolCall, UserMessage
from everturn_actors.ports import Agent, Ask, Clock, InquiryToMake, Questions
from everturn_actors.state.queue import steering
from everturn_actors.turn.calls.clearance import who_began
from everturn_actors.turn.model_call import TurnHost, deadline_stopped

_HEAD: Final = re.compile(r"\[[^\[\]\n]+\] ")
_QUOTED: Final = re.compile(r"\A\[in reply to [^\n]*\n")


class _Outcome(Struct, frozen=True, kw_only=True):
    """What becomes of a question by itself."""

    resolution: Resolution
    by: str = ""
    answer: str = ""


class People:
    """Asks people for the calls of one batch."""

    def __init__(
        self, host: TurnHost, agent: Agent, clock: Clock, deadline: anyio.CancelScope
    ) -> None:
        """Ask nothing yet.

        Args:
            host: The session.
            agent: Whose calls they are.
            clock: Tells when it is too late to answer.
            deadline: Of the turn; it stands still while a person is asked.
        """
        self._host, self._agent, self._clock, self._deadline = host, agent, clock, deadline
        # A person reads one question at a time, and a deadline stands still once.
        self._one = anyio.Lock()

    async def await_decision(
        self, approval: Approval, withdrawn: anyio.Event | None = None
    ) -> None:
        """Wait until the approval is resolved; resolve it where nobody does."""
        with deadline_stopped(self._deadline):  # a person may take longer than a turn
            outcome = await self._outcome(approval, withdrawn)
        if outcome is not None:
            await self._host.resolve(
                approval.call_id, outcome.resolution, by=outcome.by, answer=outcome.answer
            )

    def of(self, call: ToolCall, scope: anyio.CancelScope) -> Ask:
        """Return what asks in the middle of `call`, whose deadline is that of `scope`."""
        return partial(self._ask, call, scope)

    async def _ask(self, call: ToolCall, scope: anyio.CancelScope, questions: Questions) -> None:
        with deadline_stopped(scope):
            async with self._one:
                await self._ask_all(call, questions)

    async def _ask_all(self, call: ToolCall, questions: Questions) -> None:
        while (made := questions.current()) is not None:
            await self._host.record(_asked(self._host, call, made))
            approval = self._present(call.call_id)
            if approval is not None:
                await self.await_decision(approval, questions.withdrawn)
                approval = self._present(call.call_id)
            if approval is None or approval.resolution is None:
                return  # the turn is over; whoever ended it ends this task as well
            questions.take(approval)
        step = self._host.state.open_turn.step if self._host.state.open_turn else None
        if step is not None and call.call_id not in step.started:
            await self._host.record(CallStarted(call_id=call.call_id))

    def _present(self, call_id: str) -> Approval | None:
        step = self._host.state.open_turn.step if self._host.state.open_turn else None
        return step.approvals.get(call_id) if step else None

    async def _outcome(self, approval: Approval, withdrawn: anyio.Event | None) -> _Outcome | None:
        """Return what becomes of the approval; None where somebody has answered."""
        while True:
            present = self._present(approval.call_id)
            if present is None or present.resolution is not None:
                return None
            if withdrawn is not None and withdrawn.is_set():
                return _Outcome(resolution="withdrawn")
            if (outcome := self._said(approval)) is not None:
                return outcome
            left_s = (approval.expires_at - self._clock.now()).total_seconds()
            if left_s <= 0:
                return _Outcome(resolution="expired")
            await until_changed(self._host, self._clock, left_s, withdrawn)

    def _said(self, approval: Approval) -> _Outcome | None:
        """Return what a message that came makes of a question."""
        inquiry = approval.inquiry
        # What somebody writes to an agent that asked something may well be the answer.
        if not self._agent.spec.session.steering and inquiry is None:
            return None
        came = [
            each
            for each in steering(self._host.state.waiting)
            if not each.ambient and approval.may_answer(each.sender)
        ]
        if inquiry is None or not inquiry.by_message:
            return _Outcome(resolution="overtaken") if came else None
        # Only what was written to this question: the one before was answered by a message, too.
        newest = [each for each in came if each.seq > approval.seq]
        if not newest:
            return None
        turn = self._host.state.open_turn
        text = _own_words(newest[0], turn.heard if turn else ())
        if inquiry.read(text) is None:
            return _Outcome(resolution="overtaken")
        return _Outcome(resolution="answer", by=newest[0].sender, answer=text)


def _own_words(message: UserMessage, heard: Iterable[UserMessage]) -> str:
    """Return what somebody wrote without the lines of ours around it.

    In a group a message begins with its writer's name in brackets, and so does the one that the
    turn answers; what is quoted stands in a line of its own.
    """
    text, head = message.text, _HEAD.match(message.text)
    if head and any(each.text.startswith(head[0]) for each in heard):
        text = text[head.end() :]
    return _QUOTED.sub("", text)


def asked_before(approval: Approval | None) -> Approval | None:
    """Return what a call that runs again asked, with the answer; None where it asked nothing."""
    return approval if approval is not None and approval.state and approval.resolution else None


def _asked(host: TurnHost, call: ToolCall, made: InquiryToMake) -> ApprovalAsked:
    # The hash tells one question of a call from the next: an answer holds for no other.
    asked = ("inquiry", "\n".join((made.inquiry.text, *made.inquiry.choices, made.state)))
    return ApprovalAsked(
        call_id=call.call_id,
        arguments_hash=arguments_hash(call.name, call.arguments, [asked]),
        timeout_s=made.timeout_s,
        approvers=made.approvers or who_began(host),
        inquiry=made.inquiry,
        state=made.state,
    )


async def until_changed(
    host: TurnHost, clock: Clock, limit_s: float, event: anyio.Event | None = None
) -> None:
    """Wait until something new is durable, or `event` is set; at most so long."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wake, clock, limit_s, tasks.cancel_scope)
        if event is not None:
            tasks.start_soon(_heed, event, tasks.cancel_scope)
        await host.until_changed()
        tasks.cancel_scope.cancel()


async def _wake(clock: Clock, delay_s: float, sleeper: anyio.CancelScope) -> None:
    await clock.sleep(delay_s)
    sleeper.cancel()


async def _heed(event: anyio.Event, sleeper: anyio.CancelScope) -> None:
    await event.wait()
    sleeper.cancel()
