"""What the responder answers without a tool: sums, and what stands in the conversation. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from everturn_actors.model import AnyMessage, ModelRequest, Reply, UserMessage
from everturn_gateway.providers.arithmetic import ArithmeticTextError, evaluate, has_operator, shown

_SHOWN_CHARS = 300  # of a message that is quoted back
_SHOWN_FINDS = 5

_TO_A_MODEL: Final = (
    "To talk to a real model, name one under spec.model in this agent's agent.yaml;"
    " docs/models.md shows how."
)
WHAT_IT_IS: Final = (
    "I am Everturn's built-in responder, not a language model: I can only do sums, tell the date"
    f" I was given, and look things up in this conversation (say help). {_TO_A_MODEL}"
)
_WITH_TOOLS: Final = (
    "I am Everturn's built-in responder, not a language model: I can only do sums, look things up"
    " in this conversation, and use my tools where I am told so in the words that I know (say"
    f" help). {_TO_A_MODEL}"
)
_HELP: Final = (
    "I am Everturn's built-in responder, not a language model. What I can do:\n"
    "- sums: 12 * (3 + 4), 2^64, what is 7/3\n"
    "- this conversation: what did I say first, what did I say last, search WORD,"
    " how many messages, repeat that\n"
)
_CONVERSATION_REMEMBERS: Final = "- remember TEXT, and later: recall, or recall WORD\n"
_HELP_END: Final = (
    f"- what day is it, what time is it: where the agent's prompt tells me\n{_TO_A_MODEL}"
)
HELP: Final = f"{_HELP}{_CONVERSATION_REMEMBERS}{_HELP_END}"

_TASK: Final = re.compile(r"\A\[(?:Task from the agent [^\]]*\]|Scheduled task [^\n]*\]\n)")
_HEARD: Final = re.compile(r"\A\[Said here before, not to you:\]\n.*\n\[Now to you:\]\n", re.DOTALL)
_NAME: Final = re.compile(r"\A\[[^\]\n]{1,64}\] ")  # who says it, in a group
_Answer = Callable[[str, Sequence[str], ModelRequest], str]


def answer(request: ModelRequest) -> str:
    """Return the reply to the newest user message of `request`; the same one every time."""
    said = _user_texts(request.messages)
    if not said:
        return what_it_is(request)
    newest, earlier = wish_of(said[-1]), said[:-1]
    for pattern, reply in _ANSWERS:
        if match := pattern.fullmatch(newest):
            return reply(match.group(1) if pattern.groups else "", earlier, request)
    return _sum(newest) or what_it_is(request)


def wish_of(text: str) -> str:
    """Return what a message wants: without who says it, and what was said before to others."""
    text = _HEARD.sub("", text, count=1)
    return _NAME.sub("", _TASK.sub("", text, count=1), count=1).strip()


def what_it_is(request: ModelRequest) -> str:
    """Return what it says of itself, and of what it does not understand."""
    return _WITH_TOOLS if request.tools else WHAT_IT_IS


def help_with(lines: Sequence[str]) -> str:
    """Return the help, with `lines` on what the tools can do: one wish each, how it is said."""
    return f"{_HELP}{_HELP_END}\n\nWith the tools of this agent:\n" + "\n".join(
        f"- {line}" for line in lines
    )


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


def _who(_word: str, _earlier: Sequence[str], request: ModelRequest) -> str:
    return what_it_is(request)


def _greet(_word: str, earlier: Sequence[str], request: ModelRequest) -> str:
    again = "Hello again. " if earlier else "Hello. "
    return again + what_it_is(request)


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
