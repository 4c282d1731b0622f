"""What a refusal means: which error, how long to wait, what text."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from support.tables import table

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    QuotaExhaustedError,
    RateLimitedError,
    ToolsRefusedError,
)
from everturn_gateway.providers.transport.model_errors import (
    Refusal,
    error_for,
    error_in_stream,
    prompt_in_error,
    read_refusal,
    refusal_in,
    retry_after_s,
    unshown_images,
    unsupported_parameter,
    window_in_error,
)


def refused(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> ModelError:
    """Return the error for this answer."""
    return error_for(status, read_refusal(body), headers or {}, "m at host")


@table(
    ("status", "message"),
    [
        (
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted",
        ),
        (400, "Your input exceeds the context window of this model."),
        (
            400,
            "This endpoint's maximum context length is 8192 tokens. However, you requested about",
        ),
        (400, "request (9031 tokens) exceeds the available context size (2048 tokens), try"),
        (400, "You passed 9001 input tokens. However, the model's context length is only 4096"),
        (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        (400, "prompt too long; exceeded max context length by 42 tokens"),
        (500, "the input length exceeds the context length"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed"),
        (
            422,
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        ),
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        ),
        (400, "Input is too long for requested model."),
        (400, "Invalid request: Your request exceeded model token limit: 8192"),
        (400, "Range of input length should be [1, 30720]"),
        (400, "Please reduce the length of the messages or completion."),
        (413, "Payload Too Large"),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens"),
        (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        (400, "Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
        (400, "Input length (265330) exceeds model's maximum context length (262144)."),
        (400, "length of prompt_tokens (40000) must be less than max_seq_len (32768)."),
        (400, "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this"),
        (400, "the input token count is 32825 but model only supports up to 32768."),
        (400, "Prompt tokens (9000) exceeds context size (8192)"),
        (400, "Total tokens of image and text exceed max message tokens"),
        (400, "Input Tokens Exceeded: Number of input tokens exceeds maximum length."),
        (400, "Your request exceeds the model's token limit."),
        (400, "Input token limit exceeded"),
        (400, "The request is over the token limit of 8192."),
        (
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000.",
        ),
    ],
)
def test_every_wording_of_too_long_is_an_overflow(status: int, message: str) -> None:
    """Only an overflow is answered by a shorter request; anything else would repeat it in vain."""
    body = orjson.dumps({"error": {"message": message, "type": "invalid_request_error"}})

    assert type(refused(status, body)) is ContextOverflowError


@table("code", ["context_length_exceeded", "exceed_context_size_error"])
def test_the_code_alone_tells_an_overflow(code: str) -> None:
    """Azure and llama.cpp word it as they like, with these codes."""
    assert type(refused(400, orjson.dumps({"error": {"message": "no", "code": code}}))) is (
        ContextOverflowError
    )


@table(
    ("status", "message", "kind"),
    [
        (400, "max_tokens is too large: 5000. This model supports at most 4096", ModelRefusedError),
        (400, "Invalid value for 'temperature'", ModelRefusedError),
        (401, "Incorrect API key", ModelAuthError),
        (403, "Country not supported", ModelAuthError),
        (402, "Insufficient credits", QuotaExhaustedError),
        (400, "Your credit balance is too low to access the API", QuotaExhaustedError),
        (400, "API key not valid. Please pass a valid API key.", ModelAuthError),
        (529, "Overloaded", ModelTransientError),
        (500, "model requires more system memory (5.6 GiB) than is", ModelRefusedError),
        (404, "model 'x' not found, try pulling it first", ModelRefusedError),
        (
            400,
            "the reply would exceed the maximum output token limit",
            ModelRefusedError,
        ),
        (429, "Daily token limit reached for this key", RateLimitedError),
        (429, "You are over the token limit per minute", RateLimitedError),
        (408, "timeout", ModelTransientError),
        (409, "conflict", ModelTransientError),
        (429, "Rate limit reached", RateLimitedError),
        (429, "Too many tokens, please wait before trying again.", RateLimitedError),
        (500, "oops", ModelTransientError),
        (503, "overloaded", ModelTransientError),
        (529, "overloaded", ModelTransientError),
    ],
)
def test_each_status_is_the_kind_that_says_who_acts(
    status: int, message: str, kind: type[ModelError]
) -> None:
    """What is retried, and what is not, follows from the kind alone."""
    assert type(refused(status, orjson.dumps({"error": {"message": message}}))) is kind


def test_a_refusal_is_read_wherever_its_words_stand() -> None:
    """In fields, in codes, in texts, and in a refusal of somebody behind."""
    # An empty account is not waited for. OpenAI says 429 to who has not paid; no pause changes
    # that.
    body = orjson.dumps(
        {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    )

    assert type(refused(429, body)) is QuotaExhaustedError

    # A wait that stands in the text counts. Gemini sends no header that says how long.
    listed = [{"error": {"code": 429, "message": "Quota exceeded. Please retry in 31.44s."}}]
    error = refused(429, orjson.dumps(listed))

    assert type(error) is RateLimitedError
    assert error.retry_after_s == 31.44

    # A refusal inside a refusal is read. Ollama quotes the whole body of the engine behind it as
    # one text.
    inner = {"error": {"code": 400, "message": "exceeds the available context size", "n_ctx": 512}}
    error = refused(400, orjson.dumps({"error": orjson.dumps(inner).decode()}))

    assert isinstance(error, ContextOverflowError)
    assert error.window_tokens == 512
    assert str(error) == "m at host: exceeds the available context size (HTTP 400)"

    # The id in the body is named where no header has one. Support asks for it first.
    named = {"type": "error", "error": {"type": "x", "message": "No."}, "request_id": "req_1"}

    assert "(HTTP 400, request req_1)" in str(refused(400, orjson.dumps(named)))

    # The text names model status and request. An operator asks the provider about a request by its
    # id.
    error = refused(429, b'{"error":{"message":"Slow\\ndown"}}', {"x-request-id": "req_1"})

    assert str(error) == "m at host: Slow down (HTTP 429, request req_1)"


@table(
    ("code", "kind"),
    [
        ("invalid_prompt", ModelRefusedError),
        ("image_too_large", ModelRefusedError),
        ("insufficient_quota", QuotaExhaustedError),
        ("context_length_exceeded", ContextOverflowError),
        ("rate_limit_exceeded", RateLimitedError),
        ("server_error", ModelTransientError),
    ],
)
def test_what_a_stream_ends_with_is_as_typed_as_a_refusal(code: str, kind: type[Exception]) -> None:
    """What will be refused again is not asked again for an hour, at its price."""
    said = refusal_in({"code": code, "message": "No. Please try again in 1.5s."})

    error = error_in_stream(said, "m at host")

    assert type(error) is kind
    assert error.retry_after_s == (1.5 if kind is RateLimitedError else None)


@table(
    ("message", "why"),
    [
        ("Multimodal data provided, but model does not support multimodal requests.", "model"),
        ("this model is missing data required for image input", "model"),
        ("Invalid content type. image_url is only supported by certain models.", "model"),
        ("No endpoints found that support image input", "model"),
        ("unknown variant `image_url`, expected `text`", "model"),
        ("image input is not supported - hint: you may need to provide the mmproj", "model"),
        ("messages.0.content.0.image: image exceeds 5 MB maximum: 6291456 bytes", "image"),
        ("Could not process image", "image"),
        ("illegal base64 data at input byte 0", "image"),
        ("max_tokens is too large", ""),
    ],
)
def test_why_images_are_refused(message: str, why: str) -> None:
    """A model without eyes is never shown one again; one bad image says nothing of the next."""
    assert unshown_images(Refusal(message=message)) == why


@table(
    ("headers", "wait_s"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 09:00:00 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            0.0,
        ),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], wait_s: float | None) -> None:
    """Who comes back too early is refused again, and for longer."""
    assert retry_after_s(headers) == wait_s


@table(
    ("body", "text"),
    [
        (b"<html><body><h1>Bad  gateway</h1></body></html>", "Bad gateway"),
        (b"", "no explanation"),
        (b'[{"error":{"message":"in a list"}}]', "in a list"),
        (b'{"detail":"plain"}', "plain"),
        (b'{"error":"text"}', "text"),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        (b"[[[[]]]]", "[[[]]]"),
        (b"null", "null"),
        (b'{"error":{"message":"' + b"x" * 900 + b'"}}', "x" * 500 + "…"),
    ],
)
def test_any_error_body_is_quoted_on_one_line(body: bytes, text: str) -> None:
    """Proxies answer with web pages; a person still has to see what was said."""
    assert str(refused(502, body)) == f"m at host: {text} (HTTP 502)"


@table(
    ("error", "parameter"),
    [
        (
            {
                "message": "Unsupported value: 'temperature' does not support 0.7 with this model.",
                "param": "temperature",
                "code": "unsupported_value",
            },
            "temperature",
        ),
        (
            {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model."
                " Use 'max_completion_tokens' instead.",
                "param": "max_tokens",
                "code": "unsupported_parameter",
            },
            "max_tokens",
        ),
        ({"message": "Unrecognized request argument supplied: stream_options"}, "stream_options"),
        ({"message": "temperature must be at most 2", "param": "temperature"}, ""),
        ({"message": "Unsupported value: 'role'", "param": "messages[0].role"}, ""),
    ],
)
def test_a_parameter_that_a_model_does_not_take_is_found(
    error: dict[str, str], parameter: str
) -> None:
    """Only what is refused by name may be left out, and only what a reply does not need."""
    assert unsupported_parameter(read_refusal(orjson.dumps({"error": error}))) == parameter


@table(
    ("message", "tokens"),
    [
        ("This model's maximum context length is 8192 tokens. However, your messages", 8_192),
        ("This model's maximum context length is 128,000 tokens.", 128_000),
        (
            "max_tokens is too large. The model's maximum context length is 8192 (16000 > 7292)",
            8_192,
        ),
        ("request (9031 tokens) exceeds the available context size (2048 tokens), try", 2_048),
        ("greater than the context length (n_keep: 5000>= n_ctx: 4096). Try to load", 4_096),
        ("You passed 9001 input tokens. However, the model's context length is only 4096", 4_096),
        ("the model is loaded with context length of only 4096 tokens", 4_096),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096", 4_096),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200_000),
        ("exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context", None),
        (
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            32_768,
        ),
        ("maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
        ("Your request exceeded model token limit: 8192", 8_192),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", 4_096),
        ("Range of input length should be [1, 30720]", 30_720),
        ("Your input exceeds the context window of this model.", None),
        ("prompt too long; exceeded max context length by 42 tokens", None),
        ("the input length exceeds the context length", None),
        ("context window is 8k", None),
        ("maximum context length is 0 tokens", None),
        ("maximum context length is 99999999999 tokens", None),
        ("maximum context length is ,,, tokens", None),
        # how much an account may send in a minute is not what a model can read
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000 > 20000", None),
        # nor is what a reply may have, or how many bytes a body
        (
            (
                "max_tokens: 20000 > 8192, which is the maximum allowed number of output"
                " tokens; the context window is larger"
            ),
            None,
        ),
        ("Request too large: max_completion_tokens must be <= 4096", None),
        ("This model's context window is 4096 output tokens", None),
        ("Payload too large: 600000 > 524288 bytes", None),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 10000. This model's maximum"
                " context length is 4096 tokens and your request has 500 input tokens"
                " (10000 > 4096 - 500). None"
            ),
            4_096,
        ),
        (
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested"
                " about 40115 tokens (36019 of text input, 4096 in the output). Please reduce the"
                " length of either one, or use the middle-out transform"
            ),
            32_768,
        ),
        (
            (
                "You passed 9001 input tokens and requested 1000 output tokens. However, the"
                " model's context length is only 4096 tokens, resulting in a maximum input length"
                " of 3096"
            ),
            4_096,
        ),
        ("", None),
    ],
)
def test_the_window_is_read_out_of_a_refusal(message: str, tokens: int | None) -> None:
    """With it the next request fits; a wrong number would shorten every one from then on."""
    assert window_in_error(message) == tokens


def test_an_overflow_carries_the_window_that_it_names() -> None:
    """The turn hands it to the memory of the model."""
    named = refused(
        400, orjson.dumps({"error": {"message": "maximum context length is 8192 tokens"}})
    )
    field = refused(
        400,
        orjson.dumps(
            {"error": {"code": 400, "message": "no", "type": "exceed_context_size_error",
                       "n_prompt_tokens": 9031, "n_ctx": 2048}}
        ),
    )  # fmt: skip
    silent = refused(413, b"Payload Too Large")

    assert isinstance(named, ContextOverflowError)
    assert isinstance(field, ContextOverflowError)
    assert isinstance(silent, ContextOverflowError)
    assert (named.window_tokens, field.window_tokens, silent.window_tokens) == (8192, 2048, None)
    assert (named.prompt_tokens, field.prompt_tokens, silent.prompt_tokens) == (None, 9031, None)


@table(
    ("message", "tokens", "window"),
    [
        (
            (
                "maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in"
                " the messages, 1000 in the completion)"
            ),
            8_000,
            8_192,
        ),
        (
            "context length is 8192 tokens. However, your messages resulted in 9031 tokens",
            9_031,
            8_192,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", 210_000, 200_000),
        ("`max_tokens` exceed context limit: 190000 + 20000 > 200000", 190_000, 200_000),
        (
            "input token count (1200) exceeds the maximum number of tokens allowed (1048)",
            1_200,
            1_048,
        ),
        ("the input token count is 32825 but model only supports up to 32768", 32_825, 32_768),
        ("request (9031 tokens) exceeds the available context size (2048 tokens)", 9_031, 2_048),
        ("The input (9000 tokens) is longer than the model's context length (8192", 9_000, 8_192),
        (
            (
                "exceeds the model's maximum context length of 202752 tokens. You requested a total"
                " of 202941 tokens: 170941 tokens from the input messages and 32000 tokens"
            ),
            170_941,
            202_752,
        ),
        ("length of prompt_tokens (40000) must be less than max_seq_len (32768).", 40_000, 32_768),
        ("Current length is 9000 while limit is 8192", 9_000, 8_192),
        (
            "Input length 131393 exceeds the maximum allowed input length of 131040",
            131_393,
            131_040,
        ),
        ("Your input exceeds the context window of this model.", None, None),
    ],
)
def test_the_size_that_was_counted_is_read_beside_the_window(
    message: str, tokens: int | None, window: int | None
) -> None:
    """With both the next request is as large as it may be, and the tokenizer is known better."""
    assert (prompt_in_error(message), window_in_error(message)) == (tokens, window)


@table(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more about provider routing"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (500, "tools param requires --jinja flag"),
    ],
)
def test_a_model_that_takes_no_tools_is_told_from_other_refusals(status: int, message: str) -> None:
    """It can still chat: the same request passes without them."""
    body = orjson.dumps({"error": {"message": message}})

    assert isinstance(refused(status, body), ToolsRefusedError)


def test_another_text_leaves_the_rest_of_an_error_as_it_is() -> None:
    """Secrets are taken out of the text; class, wait and window decide what happens next."""
    overflow = ContextOverflowError("key", window_tokens=8192).with_text("***")
    limited = RateLimitedError("key", retry_after_s=2).with_text("***")

    assert (type(overflow), str(overflow)) == (ContextOverflowError, "***")
    assert overflow.window_tokens == 8192
    assert (type(limited), str(limited), limited.retry_after_s) == (RateLimitedError, "***", 2)
