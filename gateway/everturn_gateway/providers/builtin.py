"""The responder that needs nothing: no key, no network, no weights, and no model.

It works on what it is given and nothing else, so the same request always gets the same reply. It
is not a language model and says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import anyio.lowlevel

from everturn_actors.model import AnyMessage, ModelRequest, Reply, UserMessage
from everturn_gateway.providers.arithmetic import ArithmeticTextError, evaluate, has_operator, shown

MODEL_NAME = "builtin"
_SHOWN_CHARS = 300  # of a message that is quoted back
_SHOWN_FINDS = 5

WHAT_IT_IS: Final = (
    "I am Everturn's built-in responder, not a language model: I can only do sums, tell the date"
    " I was given, and look things up in this conversation (say help)."
    " To talk to a real model, name one under spec.model in this agent's agent.yaml;"
    " docs/models.md shows how."
)
HELP: Final = (
    "I am Everturn's built-in responder, not a language model. What I can do:\n"
    "- sums: 12 * (3 + 4), 2^64, what is 7/3\n"
    "- this conversation: what did I say first, what did I say last, search WORD,"
    " how many messages, repeat that\n"
    "- remember TEXT, and later: recall, or recall WORD\n"
    "- what day is it, what time is it: where the agent's prompt tells me\n"
    "To talk to a real model, name one under spec.model in this agent's agent.yaml;"
    " docs/models.md shows how."
)

_Answer = Callable[[str, Sequence[str], ModelRequest], str]


class BuiltinResponder:
    """A `ModelProvider` without a model."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the reply; hand it on word by word, as a model would."""
        text = answer(request)
        for word in words(text):
            # Others get their turn between two words: this costs time only where they need it.
            await anyio.lowlevel.checkpoint()
            on_text(word)
        return Reply(text=text, model=MODEL_NAME)


def words(text: str) -> list[str]:
    """Cut a text into pieces of one word each, the blanks kept."""
    return re.findall(r"\s*\S+(?:\s+$)?", text)


def answer(request: ModelRequest) -> str:
    """Return the reply to the newest user message of `request`; the same one every time."""
    said = _user_texts(request.messages)
    if not said:
        return WHAT_IT_IS
    newest, earlier = said[-1].strip(), said[:-1]
    for pattern, reply in _ANSWERS:
        if match := pattern.fullmatch(newest):
            return reply(match.group(1) if pattern.groups else "", earlier, request)
    return _sum(newest) or WHAT_IT_IS


def _user_texts(messages: Sequence[AnyMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, UserMessage)]


def _sum(text: str) -> str:
    """Work out a sum; return nothing where the text is none."""
    asked = re.sub(
        r"^(?:what(?:'s| is)|how much is|calculate|compute|work out|solve)\s+",
        "",
        text.strip(),
        flags=re.IGNORECASE,
    ).rstrip("?= .!")
    wanted = asked != text.strip().rstrip("?= .!")
    if not re.search(r"\d", asked) or not (wanted or has_operator(asked)):
        return ""
    if re.search(r"[^\W\d_]", asked):
        return ""  # words: a question that is no sum
    try:
        return f"{asked} = {shown(evaluate(asked))}".replace("= about", "is about")
    except ArithmeticTextError as error:
        return f"I cannot work out {_quoted(asked)}: {error}."


def _help(_word: str, _earlier: Sequence[str], _request: ModelRequest) -> str:
    return HELP


def _who(_word: str, _earlier: Sequence[str], _request: ModelRequest) -> str:
    return WHAT_IT_IS


def _greet(_word: str, earlier: Sequence[str], _request: ModelRequest) -> str:
    again = "Hello again. " if earlier else "Hello. "
    return again + WHAT_IT_IS


def _last(_word: str, earlier: Sequence[str], _request: ModelRequest) -> str:
    if not earlier:
        return "This is the first message of yours that I can see."
    return f"Before this you said: {_quoted(earlier[-1])}"


def _first(_word: str, earlier: Sequence[str], request: ModelRequest) -> str:
    if not earlier:
        return "This is the first message of yours that I can see."
    left_out = any(not isinstance(message, UserMessage) for message in request.messages[:1])
    what = "The oldest message of yours that I can see is" if left_out else "You began with"
    return f"{what}: {_quoted(earlier[0])}"


def _search(word: str, earlier: Sequence[str], _request: ModelRequest) -> str:
    wanted = word.strip(" \"'?.!").casefold()
    found = [text for text in earlier if wanted in text.casefold()]
    if not found:
        return f"None of your {_counted(len(earlier))} before this one has {wanted!r} in it."
    return _listed(f"You said {wanted!r} in {_counted(len(found))}", found)


def _count(_word: str, earlier: Sequence[str], request: ModelRequest) -> str:
    replies = sum(isinstance(message, Reply) for message in request.messages)
    return (
        f"I can see {_counted(len(earlier) + 1)} of yours, this one included,"
        f" and {replies} {'reply' if replies == 1 else 'replies'}."
    )


def _repeat(_word: str, _earlier: Sequence[str], request: ModelRequest) -> str:
    replies = [message.text for message in request.messages if isinstance(message, Reply)]
    return replies[-1] if replies else "There is nothing to repeat yet."


def _remember(text: str, _earlier: Sequence[str], _request: ModelRequest) -> str:
    return (
        f"It stands in this conversation now: {_quoted(text)}"
        " Say recall to get it back, for as long as the conversation lasts."
    )


def _recall(word: str, earlier: Sequence[str], _request: ModelRequest) -> str:
    matches = (_REMEMBER.fullmatch(text.strip()) for text in earlier)
    kept = [match.group(1) for match in matches if match]
    wanted = (word or "").strip(" \"'?.!").casefold()
    found = [text for text in kept if wanted in text.casefold()]
    if not found:
        return "I can see nothing like that which you asked me to remember."
    return _listed("You asked me to remember", found)


def _date(_word: str, _earlier: Sequence[str], request: ModelRequest) -> str:
    match = re.search(r"\b\d{4}-\d{2}-\d{2}\b", request.system)
    if match:
        return f"My prompt says that it is {match[0]}."
    return "Nobody told me: put {{date}} into the agent's prompt, and I can say."


def _time(_word: str, _earlier: Sequence[str], request: ModelRequest) -> str:
    match = re.search(r"\b\d{1,2}:\d{2}(?::\d{2})?(?: ?UTC)?\b", request.system)
    if match:
        return f"My prompt says that it is {match[0]}."
    return "Nobody told me: put {{time}} into the agent's prompt, and I can say."


def _said(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:please )?(?:{pattern})[?!. ]*", re.IGNORECASE | re.DOTALL)


_REMEMBER: Final = _said(r"remember(?: that)?[: ]+(\S.*?)")

# The first that fits the whole message answers; a sum is tried after all of them.
_ANSWERS: Final[tuple[tuple[re.Pattern[str], _Answer], ...]] = (
    (_said(r"/?help|what can you do"), _help),
    (_said(r"who are you|what are you|are you (?:an? )?(?:ai|bot|llm|(?:language )?model)"), _who),
    (_said(r"hello|hi|hey|good (?:morning|afternoon|evening)"), _greet),
    (_said(r"what did i (?:just |last )?say(?: last| before| just now| to you)?"), _last),
    (_said(r"what did i (?:first say|say first)|what was my first message"), _first),
    (_said(r"(?:search(?: for)?|find|look for|what did i say about|did i (?:say|mention)) (\S.*?)"),
     _search),
    (_said(r"how many messages(?: .*)?"), _count),
    (_said(r"(?:say|repeat) (?:that|it)(?: again)?|repeat|again|what did you (?:just )?say"),
     _repeat),
    (_REMEMBER, _remember),
    (_said(r"(?:recall|what did i (?:ask|tell) you to remember)(?: (?:about )?(\S.*?))?"), _recall),
    (_said(r"what(?:'s| is) (?:the |today's )?date(?: today)?|what day is (?:it|today)(?: today)?"),
     _date),
    (_said(r"what time is it(?: now)?|what(?:'s| is) the time(?: now)?"), _time),
)  # fmt: skip


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= _SHOWN_CHARS else f"“{line[:_SHOWN_CHARS]}…”"


def _listed(what: str, texts: Sequence[str]) -> str:
    shown_texts = texts[-_SHOWN_FINDS:]
    newest = f", the newest {len(shown_texts)}" if len(texts) > len(shown_texts) else ""
    return "\n".join((f"{what}{newest}:", *(f"- {_quoted(text)}" for text in shown_texts)))


def _counted(messages: int) -> str:
    return f"{messages} message" if messages == 1 else f"{messages} messages"
