"""What the core answers to whoever asks it for something."""

from __future__ import annotations

from everturn_actors.errors.base import CoreError


class InvalidInputError(CoreError):
    """The message cannot be accepted as it is."""


class UnknownAgentError(CoreError):
    """There is no such agent.

    Attributes:
        name: The name that was asked for.
    """

    def __init__(self, name: str, known: tuple[str, ...] = (), *, why: str = "") -> None:
        self.name = name
        hint = f"; there are: {', '.join(known)}" if known else "; no agent is loaded"
        super().__init__(f"there is no agent {name!r}{hint}{f'; {why}' if why else ''}")


class UnusableModelError(UnknownAgentError):
    """The model that somebody chose cannot be used."""

    def __init__(self, name: str, model: str, why: str) -> None:
        """Say which model of which agent, and why."""
        super().__init__(name)
        back = "/model default goes back to the agent's own model"
        self.args = (f"the model {model} cannot be used: {why}; {back}",)


class UnknownSessionError(CoreError):
    """There is no such session.

    Attributes:
        session_id: The id that was asked for.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"there is no session {session_id!r}")


class UnknownRequestError(CoreError):
    """No request to a model was sent there.

    Attributes:
        session_id: The session.
        seq: The event that was asked for.
    """

    def __init__(self, session_id: str, seq: int, why: str) -> None:
        self.session_id, self.seq = session_id, seq
        super().__init__(
            f"no request can be shown for event {seq} of session {session_id!r}: {why}"
        )


class UnknownMessageError(CoreError):
    """An event is no message with a text that could be shown.

    Attributes:
        session_id: The session.
        seq: The event that was asked for.
    """

    def __init__(self, session_id: str, seq: int) -> None:
        self.session_id, self.seq = session_id, seq
        super().__init__(f"event {seq} of session {session_id!r} is no message with a text")


class SessionEndedError(CoreError):
    """The session has ended; a new one has to be started.

    Attributes:
        session_id: The session.
        reason: Why it ended: reset, expired or deleted.
    """

    def __init__(self, session_id: str, reason: str) -> None:
        self.session_id, self.reason = session_id, reason
        super().__init__(f"session {session_id!r} has ended ({reason}); start a new one")


class UnknownApprovalError(CoreError):
    """No call waits for this approval.

    Attributes:
        call_id: The id that was named.
    """

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        which = f"no call {call_id!r}" if call_id else "no call"
        super().__init__(f"{which} waits for an approval")


class CallNotOpenError(CoreError):
    """No call of this id waits for what its caller says that it gave.

    Attributes:
        call_id: The id that was named.
    """

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"no call {call_id!r} waits for a result from outside")


class ApprovalClosedError(CoreError):
    """The approval can no longer be answered so.

    Attributes:
        call_id: The call.
    """

    def __init__(self, call_id: str, why: str) -> None:
        self.call_id = call_id
        super().__init__(f"the approval of call {call_id!r} cannot be answered so: {why}")


class NotAnApproverError(CoreError):
    """Somebody answered who may not.

    Attributes:
        call_id: The call.
        sender: Who answered.
    """

    def __init__(self, call_id: str, sender: str) -> None:
        self.call_id, self.sender = call_id, sender
        super().__init__(f"{sender!r} may not answer the approval of call {call_id!r}")


class MailboxFullError(CoreError):
    """The conversation has too many messages waiting; try again when some are answered."""


class QueueFullError(CoreError):
    """Too many messages wait in this conversation.

    Attributes:
        overflow: What the conversation's settings do about it.
    """

    def __init__(self, overflow: str = "reject") -> None:
        self.overflow = overflow
        super().__init__()


class NothingToRetryError(CoreError):
    """There is no turn that failed and could be asked again."""


class CannotBranchError(CoreError):
    """A session cannot begin with this part of another one."""


class BusyError(CoreError):
    """A turn runs, and the conversation takes no message meanwhile."""


class ActorStoppedError(CoreError):
    """The gateway is stopping; what was not accepted can be sent again."""


class PassivatedError(ActorStoppedError):
    """The session was passivated before it took the command; it can be asked again.

    No caller of the service meets it: the registry asks the session's next actor.
    """


class MovedError(PassivatedError):
    """The session is worked on by another process; ask that one.

    No caller of the service meets it: the command goes on to where the session is.

    Attributes:
        session_id: The session.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r} is worked on by another process")


class OwnerAwayError(ActorStoppedError):
    """The process that works on the session cannot be asked now; try again.

    Attributes:
        session_id: The session.
        node: The name of the process; empty = nobody has the session at the moment.
    """

    def __init__(self, session_id: str, node: str, why: str) -> None:
        self.session_id, self.node = session_id, node
        who = (
            f"node {node!r}, which works on session {session_id!r}, cannot be asked"
            if node
            else (f"no node works on session {session_id!r} at the moment")
        )
        super().__init__(f"{who}: {why}. Send it again")


class HomeElsewhereError(ActorStoppedError):
    """An agent works with files on another node, and not here; ask that one.

    Attributes:
        agent: The agent's name.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(
            f"the agent {agent!r} works with files on another node; ask that one, which"
            " `everturn seat list` names, or write in a session, which is passed on"
        )


class LinkBrokenError(CoreError):
    """The link to another node ended; what was asked may have been done."""


class LinkRefusedError(CoreError):
    """Another node does not let this one in, or does not understand it; its operator has to act."""


class ActorFailedError(CoreError):
    """The session failed and was closed; it starts afresh from its journal on the next message.

    Attributes:
        session_id: The session.
        cause: The first failure. The text names its kind alone where it is no error of the core:
            what an unforeseen error says may hold a secret.
    """

    def __init__(self, session_id: str, cause: BaseException) -> None:
        self.session_id, self.cause = session_id, cause
        why = str(cause) if isinstance(cause, CoreError) else type(cause).__name__
        super().__init__(f"session {session_id!r} failed: {why}")


class CommandFailedError(CoreError):
    """What was asked for could not be done, by a fault in the program.

    Attributes:
        session_id: The session, which goes on.
        cause: The fault; the text names its kind alone.
    """

    def __init__(self, session_id: str, cause: BaseException) -> None:
        self.session_id, self.cause = session_id, cause
        super().__init__(
            f"this could not be done in session {session_id!r}: {type(cause).__name__}, a fault in"
            " the program; the log of the gateway tells more"
        )


# --- the operator acts ---


class SessionQuarantinedError(CoreError):
    """The session failed again and again, and is not started any more by itself.

    Its turn can be cancelled, and it can be reset, deleted and looked at. A cancel lets it go on,
    and so does a restart of the gateway.

    Attributes:
        session_id: The session.
        failures: How often it failed in a row.
    """

    def __init__(self, session_id: str, failures: int, why: str) -> None:
        self.session_id, self.failures = session_id, failures
        super().__init__(
            f"session {session_id!r} failed {failures} times in a row ({why}) and takes nothing"
            " more: cancel its turn, reset it, or delete it; the log of the gateway tells more"
        )


class ToolFailedError(CoreError):
    """The tool could not do what was asked; the model reads why and goes on."""
