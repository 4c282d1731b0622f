"""What asking a model may fail of."""

from __future__ import annotations

from everturn_actors.errors.base import CoreError


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


class NotTranscribedError(CoreError):
    """There are no words of a sound; the text says why, as a part of a sentence."""


class NotSpokenError(CoreError):
    """A reply could not be spoken; the text says why, as a part of a sentence."""


# --- the model acts ---
