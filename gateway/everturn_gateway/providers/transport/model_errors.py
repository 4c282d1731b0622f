"""What a provider's refusal means for the turn: which error, and how long to wait. Pure: no IO.

Texts are for people and still unmasked; the caller takes secrets out of them.

Sources, all read 2026-11-21 and 2026-11-22: error codes of OpenAI,
https://platform.openai.com/docs/guides/error-codes; of OpenRouter,
https://openrouter.ai/docs/api-reference/errors; of Anthropic,
https://platform.claude.com/docs/en/api/errors; of Gemini,
https://ai.google.dev/gemini-api/docs/troubleshooting; of Ollama, vLLM and llama.cpp, the texts in
their sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final, Literal, TypeAlias

import orjson
from msgspec import Struct

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
from everturn_actors.json_values import is_list, is_object
from everturn_actors.outside import plain_line
from everturn_gateway.late_loading import late_pattern

_TEXT_LIMIT = 500  # characters of a provider's own words that are passed on

# How the size of a request is refused, by OpenAI and Azure, OpenRouter and who stands behind it,
# vLLM, llama.cpp, Ollama, LM Studio, Mistral, xAI, DashScope. Matched against code and message.
_OVERFLOW: Final = late_pattern(
    r"context_length_exceeded|exceed_context_size|context[_ ]window|maximum context length"
    r"|model's context length|exceeds? the context length|max(?:imum)? context length"
    r"|context length of only|available context size|context limit|maximum model length"
    r"|maximum prompt length|prompt (?:is )?too long|prompt exceeds max length"
    r"|input (?:is )?too long|input token count|input length (?:should|and)|model token limit"
    r"|too many (?:input )?tokens|longer than the (?:maximum )?(?:context|model)"
    r"|string_above_max_length|reduce the length of the (?:messages|prompt|input)"
    # Text Generation Inference, SGLang, SiliconFlow, watsonx, Ark, Poolside and GLM, Bedrock
    r"|`inputs` tokens \+ `max_new_tokens` must be|`?inputs`? must have less than"
    r"|prompt tokens? too long|must be less than max_seq_len|input tokens? exceeded"
    r"|exceeds? (?:the )?(?:model's )?(?:max(?:imum)? )?(?:allowed )?"
    r"(?:input|prompt|context|message|sequence) (?:length|size|tokens)"
    r"|(?:number of input|input length|prompt) (?:tokens )?[\d(), ]*exceeds?"
    r"|greater than the context length|exceeds? context size|context_exceeded"
    # Whoever speaks of a token limit, and not of one for a minute, a day, or the reply.
    r"|(?:exceed\w*|over|above|beyond|cannot exceed|hit) (?:the |its |a )?(?:[\w']+ ){0,3}"
    r"tokens? limit|(?:input|prompt|context|total|model|request) tokens? limit"
    r"|tokens? limit (?:is |was )?(?:exceeded|reached) (?:for|by|in) (?:the |this )?"
    r"(?:input|prompt|request|context|model)"
    # A request above the tokens-per-minute limit never passes, however long one waits.
    r"|request too large",
    re.IGNORECASE,
)
# Where such a refusal names the limit itself; the first that matches anything counts.
_LIMITS: Final = tuple(
    late_pattern(pattern, re.IGNORECASE)
    for pattern in (
        # llama.cpp and LM Studio, as a field or in the text
        r"\bn_ctx\W{1,4}([\d,]+)",
        r"context size \(([\d,]+)",
        # OpenAI, Azure, OpenRouter, vLLM and xAI say "maximum context length is 8192 tokens"
        r"(?:context|prompt|model) (?:length|window|size) (?:is|of|only)(?: only)?:? ([\d,]+)",
        # Mistral says "32768 maximum context length"
        r"([\d,]+) maximum context length",
        # Anthropic says "210000 tokens > 200000 maximum", "190000 + 20000 > 200000"
        r"> ([\d,]+)",
        # Moonshot says "exceeded model token limit: 8192"
        r"token limit:? (?:of |is )?([\d,]+)",
        # Gemini says "exceeds the maximum number of tokens allowed (1048576)"
        r"tokens allowed \(?([\d,]+)",
        # Text Generation Inference says "must be <= 4096"
        r"must be <= ([\d,]+)",
        # DashScope says "Range of input length should be [1, 30720]"
        r"input length should be \[\d+, ?([\d,]+)\]",
        # Vertex says "model only supports up to 32768"
        r"supports? (?:only )?up to ([\d,]+)",
        # Poolside and GLM say "exceeds the maximum allowed input length of 131040 tokens"
        r"(?:maximum (?:allowed )?\w+|model's context) length (?:of )?\(?([\d,]+)",
        # SiliconFlow says "must be less than max_seq_len (32768)"
        r"max_seq_len \(?([\d,]+)",
        # watsonx says "cannot exceed the total tokens limit 4096"; Cerebras "while limit is 8192"
        r"tokens? limit (?:of |is )?([\d,]+)",
        r"while limit is ([\d,]+)",
        # Text Generation Inference says "must have less than 4096 tokens"
        r"must have less than ([\d,]+)",
    )
)
# Where it says what it counted the prompt at; the first that matches anything counts.
_COUNTS: Final = tuple(
    late_pattern(pattern, re.IGNORECASE)
    for pattern in (
        r"\bn_prompt_tokens\W{1,4}([\d,]+)",  # llama.cpp
        r"request \(([\d,]+) tokens\)",  # llama.cpp, in words
        r"\(([\d,]+) (?:tokens )?(?:in|from) (?:the |your )?(?:messages|prompt|input)",  # OpenAI
        r": ([\d,]+) tokens from the input messages",  # SGLang
        r"messages resulted in ([\d,]+) tokens",  # OpenAI, before
        r"(?:is too long: |context limit: )([\d,]+)(?: tokens)?(?: \+ [\d,]+)? >",  # Anthropic
        r"input token count (?:is )?\(?([\d,]+)",  # Gemini, Vertex
        r"(?:request has|passed|request contains|prompt contains) ([\d,]+) (?:input )?tokens",
        r"input (?:length )?\(?([\d,]+)(?: tokens)?\)? (?:is longer|exceeds)",  # SGLang, GLM
        r"length of prompt_tokens \(([\d,]+)\)",  # SiliconFlow
        r"current length is ([\d,]+)",  # Cerebras
        r"given: ([\d,]+) `inputs` tokens",  # Text Generation Inference
        r"number of input tokens ([\d,]+)",  # watsonx
    )
)
_FAR: Final = 1000  # times the window; a prompt of so many tokens was not counted in tokens
_LIMIT_RANGE: Final = range(256, 100_000_001)  # tokens; what is outside is something else
# A limit on what an account may send in a minute; the model's window is another.
_RATE: Final = late_pattern(r"tokens per min|\bTPM\b", re.IGNORECASE)
# Of Bedrock's "too many tokens" in a minute, and of token limits of a day.
_WAIT: Final = late_pattern(
    r"please wait before|(?:daily|monthly|hourly) token|tokens? limit (?:per|a|for the|for this)"
    r" (?:minute|hour|day|month)|tokens? limit reached, (?:please )?(?:try|retry)",
    re.IGNORECASE,
)
_REPLY: Final = late_pattern(r"output|completion|reply|response", re.IGNORECASE)
# What is limited in the same words, and is no window: the length of a reply; bytes.
_OUTPUT: Final = late_pattern(
    r"max_(?:completion_|output_|new_)?tokens|maxOutputTokens|(?:output|completion) tokens",
    re.IGNORECASE,
)
_INPUT: Final = late_pattern(r"context|input|prompt|messages", re.IGNORECASE)
_OTHER_UNIT: Final = late_pattern(
    r"\s*(?:bytes|characters|chars|[kmg]i?b\b|images|pixels|(?:output|completion) tokens)",
    re.IGNORECASE,
)
_CLAUSE_END: Final = late_pattern(r"[.;] ")
_QUOTA: Final = late_pattern(
    r"insufficient_quota|billing_hard_limit|billing_error|credit balance|insufficient credits",
    re.IGNORECASE,
)
# Gemini refuses a wrong key as a bad request.
_BAD_KEY: Final = late_pattern(r"api[ _]key[ _](?:not[ _]valid|invalid|expired)", re.IGNORECASE)
# What Ollama calls a failure of the server, and no waiting mends.
_HOPELESS: Final = late_pattern(r"requires more system memory", re.IGNORECASE)
# Of a web page in place of an answer. Up to the next `<`, so that a million of them take no time.
_TAG: Final = late_pattern(r"<[^<>]*>")
# How long to wait where no header says it: Gemini; OpenAI in a stream.
_RETRY_IN: Final = late_pattern(r"(?:retry|try again) in (\d+(?:\.\d+)?) ?s", re.IGNORECASE)

_UNSUPPORTED: Final = late_pattern(
    r"unsupported|not supported|does not support|unknown|unrecognized|extra_forbidden"
    r"|not permitted|deprecated|not enabled|may only be set|cannot find field",
    re.IGNORECASE,
)
# What a reply is possible without, and how refusals name it.
DROPPABLE: Final = {
    "max_tokens": late_pattern(r"\bmax_tokens\b"),
    "temperature": late_pattern(r"\btemperature\b", re.IGNORECASE),
    "stream_options": late_pattern(r"\bstream_options\b"),
    "reasoning_effort": late_pattern(r"\breasoning[_.]effort\b|\bthinking\b", re.IGNORECASE),
    "response_format": late_pattern(r"\bresponse_format\b|\btext\.format\b"),
    **{
        name: late_pattern(rf"\b{name}\b")
        for name in (
            "parallel_tool_calls",
            "presence_penalty",
            "frequency_penalty",
            "top_p",
            "seed",
            "stop",
        )
    },
}

Unshown: TypeAlias = Literal["", "model", "image"]
"""Why a request with images was refused: for something else, because the model takes none, or
because of these images."""

# How images are refused: by Ollama and llama.cpp, OpenAI, OpenRouter, vLLM, LM Studio, DeepSeek.
_IMAGES_REFUSED: Final = late_pattern(
    r"does not support (?:multimodal|images?|vision|image input)|image input is not supported"
    r"|missing data required for image input|image_url is only supported|unknown variant `?image"
    r"|support image input|not a multimodal model|at most 0 image|no image support",
    re.IGNORECASE,
)
_IMAGE_BAD: Final = late_pattern(
    r"\bimage\b|image_url|multimodal|base64 data", re.IGNORECASE
)  # too large, damaged, of a kind that it does not know

# How tools are refused: by Ollama for a model without them, by OpenRouter where nobody serves it
# with them, by vLLM and llama.cpp where they were started without.
_TOOLS_REFUSED: Final = late_pattern(
    r"does not support (?:tools|function)|support tool use|enable-auto-tool-choice"
    r"|requires? --jinja|tools? (?:is|are) not supported",
    re.IGNORECASE,
)

_STATUS_BY_TYPE: Final = {
    "authentication_error": 401,
    "billing_error": 402,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_api_key": 401,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "requests": 429,
    "tokens": 429,
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "insufficient_quota": 429,
    # What OpenAI's Responses API ends a stream with: to ask again is paid for, and refused again.
    **dict.fromkeys(
        (
            *("invalid_prompt", "data_residency_mismatch", "bio_policy"),
            *("misalignment_policy_violation", "image_content_policy_violation"),
            *("invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url"),
            *("invalid_image_mode", "unsupported_image_media_type", "empty_image_file"),
            *("image_too_large", "image_too_small", "image_parse_error", "image_file_too_large"),
            *("failed_to_download_image", "image_file_not_found"),
        ),
        400,
    ),
}
"""Of what stands in a stream that began with 200.

Source: the type `ResponseError` of the package `openai` 3.54.
"""


class Refusal(Struct, frozen=True, kw_only=True):
    """A provider's answer that is no reply."""

    message: str
    "Its own words on one line, at most 500 characters."
    code: str = ""
    "Its code and type."
    parameter: str = ""
    "The parameter it objects to."
    status: int = 0
    "The status it gave inside the body; 0 where there is none."
    window_tokens: int | None = None
    "The window that it named in a field of its own."
    prompt_tokens: int | None = None
    "What it counted the prompt at, in a field of its own."
    request_id: str = ""
    "Its id of the request, where the body names it."


def read_refusal(body: bytes) -> Refusal:
    """Read an error body; what is not JSON is quoted."""
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return Refusal(message=_shortened(_TAG.sub(" ", body.decode("utf-8", "replace"))))
    return refusal_in(parsed)


def refusal_in(parsed: object) -> Refusal:
    """Read an error value: `{"error": …}`, its inside, a list of one, or a text."""
    one = next(iter(parsed), "") if is_list(parsed) else parsed
    if not is_object(one):
        return Refusal(message=_said(one))
    inner = one.get("error", one)
    if isinstance(inner, str) and inner.startswith("{"):  # Ollama quotes llama.cpp's whole body
        try:
            return refusal_in(orjson.loads(inner))
        except ValueError:
            pass
    if not is_object(inner):
        return Refusal(message=_said(inner), code=_said(one.get("code") or ""))
    message = inner.get("message") or inner.get("detail") or inner.get("msg") or inner
    code, kind = inner.get("code"), inner.get("type")
    return Refusal(
        message=_said(message),
        code=_shortened(" ".join(_said(name) for name in (code, kind) if name)),
        parameter=_said(inner.get("param") or ""),
        status=code if isinstance(code, int) and 400 <= code < 600 else 0,
        window_tokens=_plausible(inner.get("n_ctx")),  # llama.cpp
        prompt_tokens=_plausible(inner.get("n_prompt_tokens")),
        request_id=_said(one.get("request_id") or ""),  # Anthropic
    )


def window_in_error(text: str) -> int | None:
    """Return the window that a refusal of a too long request names; None where it names none."""
    if _RATE.search(text):
        return None
    for limit in _LIMITS:
        found = limit.search(text)
        if found and not _is_of_output(text, found):
            return _plausible(int(found[1].replace(",", "") or 0))
    return None


def prompt_in_error(text: str) -> int | None:
    """Return what a refusal says that the prompt was counted at; None where it does not say."""
    for count in _COUNTS:
        if found := count.search(text):
            return _plausible(int(found[1].replace(",", "") or 0))
    return None


def _is_of_output(text: str, found: re.Match[str]) -> bool:
    """Return whether a number limits a reply, or bytes, and says nothing of the window."""
    after = text[found.end() :]
    if _OTHER_UNIT.match(after):
        return True
    clause = _CLAUSE_END.split(text[: found.start()])[-1] + found[0] + _CLAUSE_END.split(after)[0]
    return bool(_OUTPUT.search(clause)) and not _INPUT.search(clause)


def _plausible(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) and tokens in _LIMIT_RANGE else None


def unsupported_parameter(refusal: Refusal) -> str:
    """Return the parameter without which the same request may pass; empty = none."""
    text = f"{refusal.code} {refusal.message}"
    if not _UNSUPPORTED.search(text):
        return ""
    named = refusal.parameter or text
    return next((name for name, words in DROPPABLE.items() if words.search(named)), "")


def unshown_images(refusal: Refusal) -> Unshown:
    """Return whether a request that had images was refused for them."""
    text = f"{refusal.code} {refusal.message} {refusal.parameter}"
    if _IMAGES_REFUSED.search(text):
        return "model"
    return "image" if _IMAGE_BAD.search(text) else ""


def error_for(status: int, refusal: Refusal, headers: Mapping[str, str], where: str) -> ModelError:
    """Return the error that a refused request is.

    `headers` has lower-case names. `where` names model and host, at the start of the text.
    """
    named = request_id(headers) or refusal.request_id
    text = (
        f"{where}: {refusal.message or 'no explanation'}"
        f" (HTTP {status}{f', request {named}' if named else ''})"
    )
    return _typed(status, refusal, text, retry_after_s(headers))


def error_in_stream(refusal: Refusal, where: str) -> ModelError:
    """Return the error that a stream reported after it had begun."""
    status = refusal.status or next(
        (_STATUS_BY_TYPE[word] for word in refusal.code.lower().split() if word in _STATUS_BY_TYPE),
        500,
    )
    return _typed(status, refusal, f"{where}: {refusal.message or refusal.code}", None)


def _typed(status: int, refusal: Refusal, text: str, retry_after: float | None) -> ModelError:
    words = f"{refusal.code} {refusal.message}"
    if status in {401, 403} or (status == 400 and _BAD_KEY.search(words)):
        return ModelAuthError(text)
    if status < 501 and _TOOLS_REFUSED.search(words):
        return ToolsRefusedError(text)
    if status == 413 or (status < 501 and _is_overflow(words)):
        window = refusal.window_tokens or window_in_error(refusal.message)
        counted = refusal.prompt_tokens or prompt_in_error(refusal.message)
        if counted and window and counted > _FAR * window:
            counted = None  # characters, or bytes
        return ContextOverflowError(text, window_tokens=window, prompt_tokens=counted)
    if status == 402 or (status in {400, 429} and _QUOTA.search(words)):
        return QuotaExhaustedError(text)  # waiting does not pay the bill
    if status == 429:
        if retry_after is None and (said := _RETRY_IN.search(refusal.message)):
            retry_after = float(said[1])
        return RateLimitedError(text, retry_after_s=retry_after)
    if _HOPELESS.search(words):
        return ModelRefusedError(text)
    if status in {408, 409, 425} or status >= 500:
        return ModelTransientError(text, retry_after_s=retry_after)
    return ModelRefusedError(text)


def _is_overflow(words: str) -> bool:
    """Whether a refusal is about the size of the request, and not of a reply, or of a day's use."""
    found = _OVERFLOW.search(words)
    if found is None or _WAIT.search(words):
        return False
    is_of_reply = _OUTPUT.search(found[0]) or _REPLY.search(found[0])
    return not is_of_reply or bool(_INPUT.search(found[0]))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the provider asks to wait, in seconds; None where it does not say.

    A date is read against the answer's own Date, so that the two clocks need not agree.

    Source: RFC 9110, section 10.2.3; `retry-after-ms` is what OpenAI and Azure send besides.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    asked = headers.get("retry-after", "").strip()
    seconds = _number(asked)
    if seconds is not None:
        return max(0.0, seconds)
    try:
        wait = parsedate_to_datetime(asked) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def request_id(headers: Mapping[str, str]) -> str:
    """Return by which id the provider knows a request; empty where it names none."""
    for name in ("x-request-id", "request-id", "apim-request-id", "x-generation-id", "cf-ray"):
        if headers.get(name):
            return plain_line(headers[name])[:100]
    return ""


def _said(value: object) -> str:
    """Return a value of an error in one line: a text as it is, anything else as JSON."""
    try:
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # lists in lists, deeper than it writes them
        text = "an explanation that cannot be read"
    return _shortened(text)


def _shortened(text: str) -> str:
    return plain_line(text, _TEXT_LIMIT)
