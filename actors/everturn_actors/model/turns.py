"""Turns and their steps, finished and open. Pure.

A `Turn` is one or more user messages and the steps that answer them; a `Step` is one model reply
with a result for every call it makes. A step is one value: half of one can stand nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import attrgetter

from msgspec.structs import replace

from everturn_actors.codec import Timestamp, Value
from everturn_actors.model.messages import AnyMessage, Reply, ToolResult, UserMessage
from everturn_actors.model.options import DEFAULT_OPTIONS, CallOptions, ToolDefinition
from everturn_actors.model.words import Outcome, Resolution, Usage

_options_of = attrgetter("options")


class Step(Value, frozen=True, kw_only=True):
    """One model reply and a result for each of its calls, in the order of the calls."""

    reply: Reply
    results: tuple[ToolResult, ...] = ()

    def __post_init__(self) -> None:
        if not self.reply.calls and not self.results:
            return
        called, answered = [c.call_id for c in self.reply.calls], [r.call_id for r in self.results]
        if called != answered:
            msg = f"a step needs one result a call, in order: calls {called}, results {answered}"
            raise ValueError(msg)

    @property
    def messages(self) -> tuple[Reply | ToolResult, ...]:
        """The reply, then its results."""
        return (self.reply, *self.results)


class Steering(Value, frozen=True, kw_only=True):
    """Messages that came while a turn ran, and that the model read before its next call."""

    after_steps: int
    "How many steps of the turn stand before them."
    users: tuple[UserMessage, ...]


def _size_messages(
    users: tuple[UserMessage, ...], steps: tuple[Step, ...], steered: tuple[Steering, ...]
) -> int:
    size = len(users) + len(steps)
    for step in steps:  # loops: a turn asks several times, and a sum of a generator takes thrice
        size += len(step.results)
    for each in steered:
        size += len(each.users)
    return size


def _heard(
    users: tuple[UserMessage, ...], steered: tuple[Steering, ...]
) -> tuple[UserMessage, ...]:
    return (*users, *(user for each in steered for user in each.users)) if steered else users


def _in_order(
    users: tuple[UserMessage, ...], steps: tuple[Step, ...], steered: tuple[Steering, ...]
) -> tuple[UserMessage | Step, ...]:
    if not steered:
        return (*users, *steps)
    blocks: list[UserMessage | Step] = list(users)
    done = 0
    for each in steered:
        blocks += steps[done : each.after_steps]
        blocks += each.users
        done = each.after_steps
    return (*blocks, *steps[done:])


def _is_tainted(heard: tuple[UserMessage, ...], steps: tuple[Step, ...]) -> bool:
    return any(user.untrusted for user in heard) or any(
        bool(step.reply.outside) or any(result.untrusted for result in step.results)
        for step in steps
    )


def _without_options(users: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
    """Return messages of a turn that is over: what was asked of its calls is of no use any more."""
    has_any = any(map(_options_of, users))
    return tuple(replace(user, options=None) for user in users) if has_any else users


class Turn(Value, frozen=True, kw_only=True):
    """User messages and the steps that answered them, finished."""

    number: int
    "Counts the turns of a session from 1."
    users: tuple[UserMessage, ...]
    steps: tuple[Step, ...] = ()
    outcome: Outcome = "answered"
    error: str = ""
    "Why it was not answered; empty otherwise."
    steered: tuple[Steering, ...] = ()
    "What came while it ran, oldest first."
    quoted: tuple[int, ...] = ()
    "The seqs of older messages that follow its question, quoted."

    @property
    def blocks(self) -> tuple[UserMessage | Step, ...]:
        """User messages and whole steps, oldest first."""
        return _in_order(self.users, self.steps, self.steered)

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """All messages of the turn, oldest first."""
        if self.steered:
            each = (b.messages if isinstance(b, Step) else (b,) for b in self.blocks)
            return tuple(message for messages in each for message in messages)
        messages: list[AnyMessage] = [*self.users]
        for step in self.steps:
            messages += step.messages
        return tuple(messages)

    @property
    def heard(self) -> tuple[UserMessage, ...]:
        """All its user messages, those that came while it ran included, oldest first."""
        return _heard(self.users, self.steered)

    @property
    def size_messages(self) -> int:
        """How many messages the turn holds."""
        return _size_messages(self.users, self.steps, self.steered)

    @property
    def text(self) -> str:
        """The reply a person sees: the text of the last step."""
        return self.steps[-1].reply.text if self.steps else ""

    @property
    def is_tainted(self) -> bool:
        """Whether it read text from outside that nobody vouches for, or was shown some."""
        return _is_tainted(self.heard, self.steps)

    @property
    def usage(self) -> Usage:
        """Tokens of all its model calls."""
        return sum((step.reply.usage for step in self.steps), Usage())


class FileDigest(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What stood in a file of the workspace at one moment, so that a change of it is seen."""

    path: str
    "As people read it: below the workspace; a folder ends with `/`."
    digest: str
    "Equal only while what stands there is the same; in the words of whoever made it."
    is_there: bool = True
    "Whether anything stands there."


class Inquiry(Value, frozen=True, kw_only=True):
    """What an agent asks a person: not whether a call may run, but something it wants to know."""

    text: str
    choices: tuple[str, ...] = ()
    takes_text: bool = False
    "Whether an answer may be another text than one of `choices`."
    default: str = ""
    "What holds where nobody answers in time; empty = nothing."
    by_message: bool = False
    "Whether a message is the answer, where it is one: a program asks, which reads no messages."

    def read(self, typed: str) -> str | None:
        """Return the answer that somebody typed, or None where it is none.

        A choice may be written out or named by its number.

        >>> Inquiry(text="Which?", choices=("Red", "Blue")).read("2")
        'Blue'
        """
        word = typed.strip()
        for choice in self.choices:
            if word.casefold() == choice.casefold():
                return choice
        if word.isdecimal() and 1 <= int(word) <= len(self.choices):
            return self.choices[int(word) - 1]
        return word if word and self.takes_text else None


class Approval(Value, frozen=True, kw_only=True):
    """A call that waits for a person's decision, or has it."""

    call_id: str
    arguments_hash: str
    """Of the arguments it was asked for, and of `files`; the decision holds for no others.

    See `ids.arguments_hash`.
    """
    expires_at: Timestamp
    "UTC. Nobody can answer after it, and the call does not run."
    reason: str = ""
    "Why it is asked, in words."
    pattern: str = ""
    "What allow_always would allow from then on; empty = this cannot be allowed for good."
    approvers: tuple[str, ...] = ()
    "Who may answer: sender ids, a trailing `*` matches the rest; empty = all who may talk here."
    files: tuple[FileDigest, ...] = ()
    "What the call may read or run of the workspace, as it stood when it was asked for."
    inquiry: Inquiry | None = None
    "What the agent wants to know; None = it is asked whether the call may run."
    state: str = ""
    "What the call goes on with, see `InquiryToMake.state`; empty = it does not run again."
    seq: int = 0
    "Of the event that asked."
    resolution: Resolution | None = None
    by: str = ""
    "Who answered."
    answer: str = ""
    "What they answered to the inquiry."

    @property
    def is_allowed(self) -> bool:
        """Whether the call may run."""
        return self.resolution in {"allow_once", "allow_always"}

    def may_answer(self, sender: str) -> bool:
        """Whether this sender is one of those who may answer."""
        return not self.approvers or any(
            sender.startswith(each[:-1]) if each.endswith("*") else sender == each
            for each in self.approvers
        )


class CallAnswer(Value, frozen=True, kw_only=True):
    """What the caller says that one of its tools gave."""

    call_id: str
    text: str


class OpenStep(Value, frozen=True, kw_only=True):
    """The step a running turn is in: a reply is awaited, or some of its calls are."""

    reply: Reply | None = None
    started: tuple[str, ...] = ()
    "Ids of the calls that may have begun to run."
    results: Mapping[str, ToolResult] = {}
    "Results so far, by call id."
    approvals: Mapping[str, Approval] = {}
    "By call id."
    handed_over: Mapping[str, Timestamp] = {}
    "Calls that the caller runs, by call id: until when it may say what they gave, UTC."
    answers: Mapping[str, CallAnswer] = {}
    "What it said, by call id, before each becomes a result in its place."


class Outage(Value, frozen=True, kw_only=True):
    """Calls of a model that failed one after the other, and when the next one is made. All UTC."""

    attempts: int
    since: Timestamp
    "When the first of them failed."
    failed_at: Timestamp
    "When the newest did."
    retry_at: Timestamp
    give_up_at: Timestamp
    "When the last try is made."
    error: str
    "Why the newest failed, in words."

    @property
    def described(self) -> str:
        """How things stand, in a line: since when, and when it is called again."""
        since, retry_at = (f"{at:%H:%M:%S} UTC" for at in (self.since, self.retry_at))
        return f"out of reach since {since}; called again at {retry_at}"


class OpenTurn(Value, frozen=True, kw_only=True):
    """A turn that is not finished yet."""

    number: int
    users: tuple[UserMessage, ...]
    started_at: Timestamp
    "UTC, aware. What the prompt calls the present time, so that a restart renders the same bytes."
    steps: tuple[Step, ...] = ()
    step: OpenStep | None = None
    steered: tuple[Steering, ...] = ()
    "What came while it ran, oldest first."
    broken: tuple[str, ...] = ()
    "Why the newest replies, one after the other, could not be used; empty after one that could."
    delivers: bool = False
    "Whether what is said in it goes to the people of a channel."
    retried_steps: int = 0
    "How many of its steps are those of the turn that failed before it, and whose place it took."
    sent_files: bool = False
    "Whether a call of it sent files: where one did, the reply that ends it may be without a word."
    outage: Outage | None = None
    "Where the model of the open step is out of reach: until when it is waited for."
    notified_of_outage: bool = False
    "Whether its people are told that the model is, or was, out of reach."
    notified_of_drops: bool = False
    "Whether its people are told that messages which came meanwhile are not answered."
    preview_step: int = 0
    "The step whose text a message of the platform shows as it comes, or may show; 0 = none."
    preview_id: str = ""
    "What the platform calls that message; empty = nobody knows whether it is there."
    quoted: tuple[int, ...] = ()
    "The seqs of older messages that follow its question, quoted."
    is_spoken: bool = False
    "Whether its answer was made sound."

    @property
    def blocks(self) -> tuple[UserMessage | Step, ...]:
        """User messages and finished steps, oldest first."""
        return _in_order(self.users, self.steps, self.steered)

    @property
    def heard(self) -> tuple[UserMessage, ...]:
        """All its user messages, those that came while it ran included, oldest first."""
        return _heard(self.users, self.steered)

    @property
    def options(self) -> CallOptions:
        """What its caller asks of the model: of the newest message that asks for something."""
        # Each turn asks several times, and hardly any was steered.
        heard = _heard(self.users, self.steered) if self.steered else self.users
        for user in reversed(heard):
            if user.options is not None:
                return user.options
        return DEFAULT_OPTIONS

    @property
    def speaks(self) -> bool:
        """Whether what is said in it goes to people of a channel, and not its questions alone."""
        return self.delivers and not self.is_quiet

    @property
    def is_quiet(self) -> bool:
        """Whether a program of the gateway began it for itself, and no person has spoken since."""
        return all(user.options is not None and user.options.is_quiet for user in self.heard)

    def tools_beside(
        self, own: tuple[ToolDefinition, ...], deferred: Collection[str] = ()
    ) -> tuple[ToolDefinition, ...]:
        """Return the agent's own tools, then those of its caller whose names they do not have.

        Args:
            own: Those that stand in the request.
            deferred: Names of those that do not.
        """
        brought = self.options.tools
        if not brought:
            return own
        names = {*(tool.name for tool in own), *deferred}
        return (*own, *(tool for tool in brought if tool.name not in names))

    @property
    def waits_for_caller(self) -> bool:
        """Whether it goes on only when the caller tells what its own tools gave."""
        step = self.step
        return step is not None and not step.handed_over.keys() <= (
            step.answers.keys() | step.results.keys()
        )

    @property
    def reply_to(self) -> str:
        """The message on the platform that an answer replies to: the newest that names one."""
        return next((user.reply_to for user in reversed(self.heard) if user.reply_to), "")

    @property
    def is_tainted(self) -> bool:
        """Whether it has read text from outside that nobody vouches for, or was shown some.

        For one call it is `outside.behind_calls` that tells.
        """
        step = self.step
        if step is not None:
            if step.reply is not None and step.reply.outside:
                return True
            if any(result.untrusted for result in step.results.values()):
                return True
        return _is_tainted(self.heard, self.steps)

    @property
    def size_messages(self) -> int:
        """How many messages its users and finished steps have."""
        return _size_messages(self.users, self.steps, self.steered)

    def finished(self, outcome: Outcome, error: str) -> Turn:
        """Return this turn as a finished one; a step without its reply is left out."""
        return Turn(
            number=self.number,
            users=_without_options(self.users),
            steps=self.steps,
            outcome=outcome,
            error=error,
            steered=tuple(replace(s, users=_without_options(s.users)) for s in self.steered),
            quoted=self.quoted,
        )
