"""One call of a server's tool, with all that the server asks before it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import anyio
from msgspec.structs import replace

from everturn_actors.ports import ToolContext
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.requests.interview import (
    FORMS_MOST,
    Interview,
    Outcome,
    Progress,
    read_form,
    read_progress,
)
from everturn_gateway.tools.mcp.requests.sampling import Sampler
from everturn_gateway.tools.mcp.requests.values import (
    ELICIT,
    NOTHING,
    ROOTS,
    SAMPLE,
    RefusedError,
    Respond,
    Response,
    Result,
    Sent,
    ServerQuestions,
    ServerRequest,
)
from everturn_gateway.tools.mcp.results import Answer
from everturn_gateway.tools.places import NOBODY_ANSWERS

ROUNDS_MOST: Final = 10  # in which a server asks something before it answers
_NOBODY: Final = "nobody can be asked in this conversation"

MakeCall: TypeAlias = Callable[[Respond, Sent], Awaitable[Result]]
"Makes the call, or makes it again with what the server wanted to know."


class Dialogue:
    """What is said to and fro in one call."""

    def __init__(
        self,
        server: str,
        tool: str,
        context: ToolContext,
        *,
        sampler: Sampler,
        roots: Response | None,
    ) -> None:
        """Ask nothing yet.

        Args:
            server: Who asks, as the agent's owner calls it.
            tool: What is called, by the server's name for it.
            context: Where the call runs.
            sampler: Lets the server use a model.
            roots: What a server is told that asks where it works; None = it is told nothing.
        """
        self._server, self._tool, self._context = server, tool, context
        self._sampler, self._roots = sampler, roots
        self._notes: list[str] = []
        self._asked = 0

    async def run(self, call: MakeCall) -> Answer:
        """Make the call, and again with what the server wants to know, until it answers.

        Raises:
            McpError: There is no result; the text says why.
        """
        try:
            return await self._run(call)
        except RefusedError as error:
            msg = f"it asks for something that it does not get: {error}"
            raise McpAnswerError(msg) from error

    async def _run(self, call: MakeCall) -> Answer:
        sent, rounds = NOTHING, 0
        before = self._context.asked
        if before is not None:  # the gateway was started anew while a person was asked
            progress = read_progress(before.state)
            if progress is None or progress.wanted is None:
                msg = "what it asked cannot be read any more"
                raise McpAnswerError(msg)
            interview = self._interview(progress)
            interview.take(before)
            rounds = progress.rounds
            sent = await self._answered(interview, progress.wanted)
        while True:
            result = await call(self.respond, sent)
            if isinstance(result, Answer):
                return self._noted(result)
            rounds += 1
            if rounds > ROUNDS_MOST:
                msg = f"it asks more than {ROUNDS_MOST} times before it answers"
                raise McpAnswerError(msg)
            sent = await self._begin(result, rounds)

    async def respond(self, request: ServerRequest, withdrawn: anyio.Event) -> Response:
        """Answer what a server asks while its call is open.

        Raises:
            RefusedError: It is refused.
        """
        if request.method != ELICIT:
            return await self._by_itself(request)
        progress = Progress(forms=(read_form("", request),), asked=self._asked)
        interview = self._interview(progress, withdrawn)
        await self._ask(interview)
        self._asked = progress.asked
        return self._told(interview)[""].response

    async def _begin(self, wanted: ServerQuestions, rounds: int) -> Sent:
        questions = {key: r for key, r in wanted.requests.items() if r.method == ELICIT}
        if len(questions) > FORMS_MOST:
            msg = f"{len(questions):,} questions at once; {FORMS_MOST} are asked at most"
            raise RefusedError(msg)
        others = {key: r for key, r in wanted.requests.items() if r.method != ELICIT}
        progress = Progress(
            forms=tuple(read_form(key, request) for key, request in questions.items()),
            wanted=replace(wanted, requests=others),
            rounds=rounds,
            asked=self._asked,
        )
        return await self._answered(self._interview(progress), wanted)

    async def _answered(self, interview: Interview, wanted: ServerQuestions) -> Sent:
        """Ask what is left to ask, and only then what needs no person: it is not kept."""
        await self._ask(interview)
        self._asked = interview.progress.asked
        outcomes = self._told(interview)
        if wanted.is_plain:
            if any(outcome.action != "accept" for outcome in outcomes.values()):
                msg = "a page has to be opened for it first, and was not"
                raise RefusedError(msg)
            return NOTHING
        responses = {key: outcome.response for key, outcome in outcomes.items()}
        for key, request in wanted.requests.items():
            if request.method != ELICIT:
                responses[key] = await self._by_itself(request)
        return Sent(responses=responses, state=wanted.state)

    def _interview(self, progress: Progress, withdrawn: anyio.Event | None = None) -> Interview:
        return Interview(progress, server=self._server, tool=self._tool, withdrawn=withdrawn)

    async def _ask(self, interview: Interview) -> None:
        context = self._context
        if context.ask is None or context.key.channel in NOBODY_ANSWERS:
            interview.decline()
            self._notes += [_NOBODY] * bool(interview.progress.forms)
        else:
            await context.ask(interview)

    def _told(self, interview: Interview) -> Mapping[str, Outcome]:
        """Return what became of the questions; the model learns of those without an answer."""
        outcomes = interview.outcomes
        words = {"decline": "it was declined", "cancel": "nobody answered"}
        self._notes += [words[o.action] for o in outcomes.values() if o.action in words]
        return outcomes

    async def _by_itself(self, request: ServerRequest) -> Response:
        if request.method == SAMPLE:
            return await self._sampler.sample(request.params)
        if request.method == ROOTS and self._roots is not None:
            return self._roots
        msg = f"{request.method} is not answered here"
        raise RefusedError(msg)

    def _noted(self, answer: Answer) -> Answer:
        notes = [answer.text]
        if self._notes:
            told = "; ".join(dict.fromkeys(self._notes))
            notes.append(f"[The server asked the people of this conversation something: {told}.]")
        if calls := self._sampler.calls:
            used = f"{calls} call{'s' * (calls > 1)}, {self._sampler.tokens:,} tokens"
            notes.append(f"[The server used a model: {used}.]")
        return replace(answer, text="\n".join(notes))
