"""Errors of the core. Each says who has to act: the caller, the operator, or the model.

The first line of a class docstring is the text a person reads when no better message is given.
"""

from __future__ import annotations

from pathlib import Path


class CoreError(Exception):
    """Something went wrong inside Everturn."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


# --- the caller acts ---


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


class JournalError(CoreError):
    """The journal of a session cannot be used.

    Attributes:
        path: The file, where there is one.
    """

    def __init__(self, message: str, *, path: Path | None = None) -> None:
        self.path = path
        super().__init__(f"{path}: {message}" if path else message)


class CorruptJournalError(JournalError):
    """The journal has a hole, a damaged line before good ones, or is another session's."""


class UnknownFormatError(JournalError):
    """A file was written by another version of Everturn, in a format unknown to this one."""


class JournalWriteError(JournalError):
    """An event could not be written; it was not accepted, and nothing of it was kept."""


class OutOfFilesError(JournalWriteError):
    """This process, or the machine, has no file descriptor left; nothing was read or written.

    It passes when connections are closed: neither is the journal damaged nor the disk full.
    """


class FencedError(JournalError):
    """Another writer appended to this session; this one has to drop its state and load again."""


class StaleReadError(JournalError):
    """The store does not show yet what is known to be durable; read again."""


class ConflictError(JournalError):
    """Another writer was faster: what is stored is not what this one started from."""


class DamagedValueError(JournalError):
    """What is stored is not what it should be."""


class WorkspaceLostError(JournalWriteError):
    """The lock of the workspace was removed or replaced while this process held it.

    Another process may use the workspace now: nothing more is written, and this one has to end.
    """

    def __init__(self, path: Path, *, why: str = "") -> None:
        """Say that the lock is lost.

        Args:
            path: The lock.
            why: In words, where it is no file that was removed.
        """
        super().__init__(
            why
            or "was removed or replaced while this process used the workspace. Another one may use"
            " it now, so this one takes nothing more and stops; what it accepted is on disk. Start"
            " it again, and leave the file alone: it does no harm where nothing runs",
            path=None if why else path,
        )


class WorkspaceLockedError(CoreError):
    """Another process uses this workspace.

    Attributes:
        path: The lock file.
        pid: The process that holds it, 0 where that cannot be read.
    """

    def __init__(self, path: Path, pid: int, *, message: str = "") -> None:
        """Say who has it.

        Args:
            path: The lock.
            pid: Of the process.
            message: In words, where it is no folder of this machine.
        """
        self.path, self.pid = path, pid
        super().__init__(
            message
            or f"{path.parent} is in use by process {pid or '(unknown)'}; "
            "stop it or choose another --workspace"
        )


# --- about the model ---


class ModelError(CoreError):
    """The model gave no reply.

    Attributes:
        retry_after_s: How long the provider asked to wait, in seconds; None where it did not say.
    """

    retryable = False
    "Whether the same call may succeed when it is made again."

    def __init__(self, message: str = "", *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def with_text(self, text: str) -> ModelError:
        """Return the same error with another text."""
        return type(self)(text, retry_after_s=self.retry_after_s)


class ModelAuthError(ModelError):
    """The provider refused the key; the operator has to set a valid one."""


class ModelRefusedError(ModelError):
    """The provider refused the request."""


class ContextOverflowError(ModelRefusedError):
    """The request is larger than the model's context window.

    Attributes:
        window_tokens: The window as the provider named it; None where it did not.
        prompt_tokens: What the provider counted the request at; None where it did not say.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retry_after_s: float | None = None,
        window_tokens: int | None = None,
        prompt_tokens: int | None = None,
    ) -> None:
        self.window_tokens = window_tokens
        self.prompt_tokens = prompt_tokens
        super().__init__(message, retry_after_s=retry_after_s)

    def with_text(self, text: str) -> ContextOverflowError:
        """Return the same error with another text."""
        return type(self)(
            text,
            retry_after_s=self.retry_after_s,
            window_tokens=self.window_tokens,
            prompt_tokens=self.prompt_tokens,
        )


class ToolsRefusedError(ModelRefusedError):
    """The model, or whoever serves it, takes no tools; the same request may pass without them."""


class QuotaExhaustedError(ModelRefusedError):
    """The account at the provider has no money or quota left; waiting does not bring it back."""


class RateLimitedError(ModelError):
    """The provider asks to slow down."""

    retryable = True


class ModelTransientError(ModelError):
    """The provider cannot be reached or is overloaded."""

    retryable = True


class NotCalledError(ModelTransientError):
    """The model was not called in time: the call waited for a limit of our own.

    Nothing is wrong with the model, and no try of it has failed.
    """


class CallTimeoutError(ModelTransientError):
    """The model gave no reply in time."""


class TruncatedStreamError(ModelTransientError):
    """The model's reply broke off before its end."""


class ContextDoesNotFitError(ModelRefusedError):
    """What cannot be left out of a request is larger than the model's context window."""


# --- the model acts ---


class ToolFailedError(CoreError):
    """The tool could not do what was asked; the model reads why and goes on."""
