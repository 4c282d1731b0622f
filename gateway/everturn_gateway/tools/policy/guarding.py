"""What stands around every tool: clean results, a fence around outside text, notes and notices."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, cast

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import Approval, Inquiry, ToolCall, ToolDefinition
from everturn_actors.ports import (
    Ask,
    AsksPeople,
    InquiryToMake,
    Questions,
    Tool,
    ToolCapabilities,
    ToolContext,
    ToolOutput,
)
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.checkpoints import Checkpoints
from everturn_gateway.tools.environment import (
    CommandPlace,
    FileWrite,
    PlacesCommands,
    RunsCommands,
    WritesFiles,
    capabilities_of,
)
from everturn_gateway.tools.policy.held_files import HeldFiles
from everturn_gateway.tools.policy.hooks import AfterTool, notes
from everturn_gateway.tools.policy.notifying import Notifier, ToolNotice
from everturn_gateway.tools.policy.outside.cleaning import clean
from everturn_gateway.tools.policy.outside.fencing import fence
from everturn_gateway.tools.policy.policy import Policy
from everturn_gateway.tools.policy.subjects import (
    SaysItself,
    Subject,
    policy_name_of,
    subject_of,
)
from everturn_gateway.tools.todo.reminder import TodoReminder

_LARGE_CHARACTERS = 50_000  # cleaning more takes over a millisecond: in a thread


class CallWatch(Protocol):
    """Is told of every call that runs."""

    async def watched(
        self,
        run: Callable[[], Awaitable[ToolOutput]],
        *,
        agent: str,
        call: ToolCall,
        capabilities: ToolCapabilities,
    ) -> ToolOutput:
        """Run one call and return its output, taking note of how it went."""
        ...


_MAY_WRITE: Final = frozenset(("bash", "cli", "mcp"))
"Kinds of tools that run what nobody here has written."


class Beside(Struct, frozen=True, kw_only=True):
    """What is kept beside the calls of an agent, and who is told of them."""

    held: HeldFiles | None = None
    "Files that nobody writes while a call runs; one that is over lets go of its own."
    reminder: TodoReminder | None = None
    "Says what of the model's to-do list goes with a result."
    checkpoints: Checkpoints | None = None
    "What the workspace was before a turn changed it."
    notifier: Notifier | None = None
    "Who tells people of calls; None = nobody."
    watch: CallWatch | None = None
    "Is told of every call that runs."


def _clean_inquiry(asked: Inquiry, secrets: SecretRegistry) -> Inquiry:
    return replace(
        asked,
        text=clean(asked.text, secrets),
        choices=tuple(clean(each, secrets) for each in asked.choices),
        default=clean(asked.default, secrets),
    )


class _GuardedQuestions:
    """What a call asks in its middle: without secrets, of whom and for how long the policy says."""

    def __init__(self, inner: Questions, policy: Policy, secrets: SecretRegistry) -> None:
        self._inner, self._policy, self._secrets = inner, policy, secrets
        self.withdrawn = inner.withdrawn

    def current(self) -> InquiryToMake | None:
        made = self._inner.current()
        if made is None:
            return None
        return replace(
            made,
            inquiry=_clean_inquiry(made.inquiry, self._secrets),
            timeout_s=self._policy.approval_timeout_s,
            approvers=made.approvers or self._policy.approvers,
        )

    def take(self, answer: Approval) -> None:
        self._inner.take(answer)


class GuardedTool:
    """A tool with all that stands around one.

    Its results are free of secrets and broken characters; text from outside stands in a fence; the
    agent's notes follow a call that went well; and people are told of calls as the policy says,
    once the call is over, also where it failed or was cut short.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        agent: str,
        secrets: SecretRegistry,
        policy: Policy,
        after: Sequence[AfterTool] = (),
        beside: Beside | None = None,
    ) -> None:
        """Stand around `tool`.

        Args:
            tool: What runs.
            agent: The agent's name, for notices.
            secrets: What nobody may read.
            policy: Says who is told of what.
            after: The agent's hooks after a call.
            beside: What is kept beside the calls; None = nothing.
        """
        self._tool = tool
        self._agent = agent
        self._secrets = secrets
        self._policy = policy
        self._after = tuple(after)
        self._beside = beside or Beside()
        self._notifier, self._watch = self._beside.notifier, self._beside.watch

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        return self._tool.definition

    @property
    def capabilities(self) -> ToolCapabilities:
        """How it may be run."""
        return self._tool.capabilities

    @property
    def policy_name(self) -> str:
        """Its name in patterns; empty where that is the one the model knows."""
        return policy_name_of(self._tool)

    @property
    def says_itself(self) -> bool:
        """Whether nobody but its server stands behind its description."""
        return isinstance(self._tool, SaysItself) and self._tool.says_itself

    def command_of(self, call: ToolCall) -> str | None:
        """Return the command that the call would run; None where it runs none."""
        return self._tool.command_of(call) if isinstance(self._tool, RunsCommands) else None

    def place_of(self, call: ToolCall) -> CommandPlace:
        """Return where the command of the call would run.

        Raises:
            ToolFailedError: As the tool's own, or it is a tool that does not say.
        """
        if not isinstance(self._tool, PlacesCommands):
            raise ToolFailedError
        return self._tool.place_of(call)

    def inquiry_of(self, call: ToolCall, context: ToolContext) -> InquiryToMake:
        """Return what the call asks a person, without secrets.

        Raises:
            ToolFailedError: As the tool's own, or it is a tool that asks nobody.
        """
        if not self.capabilities.asks_people:
            raise ToolFailedError
        made = cast("AsksPeople", self._tool).inquiry_of(call, context)
        return replace(made, inquiry=_clean_inquiry(made.inquiry, self._secrets))

    async def write_of(self, call: ToolCall) -> FileWrite | None:
        """Return which file the call would write; None where it writes none by itself."""
        return await self._tool.write_of(call) if isinstance(self._tool, WritesFiles) else None

    def capabilities_of(self, call: ToolCall) -> ToolCapabilities:
        """How this call may be run."""
        return capabilities_of(self._tool, call)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call, and return its result fit to be sent.

        Raises:
            ToolFailedError: As the tool's own, without secrets.
        """
        if context.ask is not None:
            # What a tool asks reaches people: secrets are taken out.
            context = replace(context, ask=functools.partial(self._ask, context.ask))
        try:
            if self._watch is None:
                return await self._call(call, context)
            work = functools.partial(self._call, call, context)
            return await self._watch.watched(
                work, agent=self._agent, call=call, capabilities=self.capabilities
            )
        finally:
            if (held := self._beside.held) is not None:
                held.release(context.session_id, call.call_id)  # whatever became of the call

    async def _ask(self, ask: Ask, questions: Questions) -> None:
        await ask(_GuardedQuestions(questions, self._policy, self._secrets))

    async def _call(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        subject = await self._to_tell_of(call)
        success = False
        try:
            output = await self._run(call, context)
            success = not output.is_error
            return output
        finally:
            if subject is not None:
                # Cancelled calls are told of as well.
                self._tell(subject, call, context, success=success)

    async def _run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        try:
            given = await self._checkpointed(call, context)
        except ToolFailedError as error:
            # Errors of programs quote their arguments, secrets too.
            raise ToolFailedError(await self._cleaned(str(error))) from error
        output = ToolOutput(text=given) if isinstance(given, str) else given
        # Before the fence: nothing is put into a cleaned text afterwards.
        text = await self._cleaned(output.text)
        if output.untrusted:
            text = fence(text, session_id=context.session_id, call_id=call.call_id)
        if not output.is_error:
            text = "\n\n".join((text, *(f"Note: {note}" for note in notes(self._after, call))))
            reminder = self._beside.reminder
            if reminder and (told := await reminder.after(call.name, context)):
                text = f"{text}\n\n{await self._cleaned(told)}"
        source = clean(output.source, self._secrets) if output.source else ""
        return replace(output, text=text, source=source)

    async def _checkpointed(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        checkpoints = self._beside.checkpoints
        if checkpoints is None or not self._may_change(call):
            return await self._tool.run(call, context)
        opened = await checkpoints.begin(context)
        try:
            return await self._tool.run(call, context)
        finally:
            # Also after a failure: it may have written before it failed.
            await checkpoints.end(opened)

    def _may_change(self, call: ToolCall) -> bool:
        """Return whether a call may change files of the workspace."""
        capabilities = self.capabilities_of(call)
        if capabilities.read_only:
            return False
        writes = isinstance(self._tool, WritesFiles) or capabilities.kind in _MAY_WRITE
        try:
            return writes or self.command_of(call) is not None
        except ToolFailedError:  # its arguments do not fit, and it does nothing
            return False

    async def _cleaned(self, text: str) -> str:
        work = functools.partial(clean, text, self._secrets)
        if len(text) < _LARGE_CHARACTERS:
            return work()
        return await anyio.to_thread.run_sync(work)

    async def _to_tell_of(self, call: ToolCall) -> Subject | None:
        if self._notifier is None or self._policy.notify is None:
            return None
        subject = await subject_of(call, self._tool)
        if subject.line is None:
            told = self._policy.tells_of(subject)
        else:
            told = await anyio.to_thread.run_sync(self._policy.tells_of, subject)
        return subject if told else None

    def _tell(
        self, subject: Subject, call: ToolCall, context: ToolContext, *, success: bool
    ) -> None:
        assert self._notifier is not None, "there is a subject only where somebody tells"
        assert self._policy.notify is not None, "as above"
        notice = ToolNotice(
            agent=self._agent,
            session_id=context.session_id,
            call_id=call.call_id,
            tool=call.name,
            command=call.name if subject.line is None else subject.line.text,
            arguments=call.arguments,
            success=success,
        )
        self._notifier.notify(notice, self._policy.notify.deliveries)
