"""What people may wish for, and which calls fulfil it. Pure.

A wish is understood only in the words that stand here, and only where its tool is offered; the
help lists them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from everturn_actors.model import ModelRequest, ToolDefinition
from everturn_gateway.providers.builtin.talk import help_with

_STEPS_MAX = 2
_AT_ONCE_MAX = 8  # files or pages that one wish may name
_NOTES_DAYS = 30  # of daily notes that are looked through for a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One call."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a wish is fulfilled; empty where none was understood."""

    steps: tuple[tuple[Wanted, ...], ...] = ()
    "Calls, one step after the other; those of one step are independent."
    about: str = ""
    "Only lines with this are told of the results; empty = all."
    answer: str = ""
    "What is said at once; then nothing is called."


Offered: TypeAlias = Mapping[str, ToolDefinition]
_Make: TypeAlias = Callable[[re.Match[str], Offered], Plan | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    tool: str
    help: str
    "How it is said; empty where a wish before tells it."
    pattern: re.Pattern[str]
    make: _Make


def wished(text: str, request: ModelRequest) -> Plan:
    """Return how to fulfil what `text` wishes with the tools that `request` offers."""
    offered = {tool.name: tool for tool in request.tools}
    if not offered:
        return Plan()
    if _HELP.fullmatch(text):
        return Plan(answer=help_with(tuple(_help_lines(offered))))
    if _TOOLS.fullmatch(text):
        return Plan(answer=_tools_answer(offered))
    if "read_skill" in offered and _SKILLS.fullmatch(text):
        return Plan(answer=_skills_answer(request.system))
    if "read_skill" in offered and (match := _USE_SKILL.fullmatch(text)):
        return _with_skill(match["skill"], match["then"], request)
    return _fixed(text, offered) or _cli(text, offered) or _named(text, offered) or Plan()


def _fixed(text: str, offered: Offered) -> Plan | None:
    for wish in _WISHES:
        if wish.tool in offered and (match := wish.pattern.fullmatch(text)):
            plan = wish.make(match, offered)
            if plan is not None:
                return plan
    return None


def _cli(text: str, offered: Offered) -> Plan | None:
    """Return the call of a program: its name, and the arguments as on a command line."""
    name, _, rest = text.partition(" ")
    if name not in offered or not _is_program(offered[name]):
        return None
    if rest.strip() == "help" and "help" in _properties(offered[name]):
        return _one(name, help=True)
    return _one(name, args=rest.strip())


def _named(text: str, offered: Offered) -> Plan | None:
    """Return the call of any tool by its name, with its arguments as JSON."""
    match = _CALL.fullmatch(text)
    if match is None or (match["name"] not in offered and not match["arguments"]):
        return None
    name = match["name"]
    if name not in offered:
        return Plan(answer=f"I have no tool {name}; I have: {', '.join(offered)}.")
    try:
        arguments: object = json.loads(match["arguments"] or "{}")
    except (ValueError, RecursionError) as error:
        return Plan(answer=f"What follows {name} is no JSON: {error}.")
    return _one(name, **cast("dict[str, object]", arguments))


def _with_skill(skill: str, then: str | None, request: ModelRequest) -> Plan:
    """Return the reading of a skill, and what is to be done with what it allows."""
    read = (Wanted(tool="read_skill", arguments={"name": skill}),)
    if then is None:
        return Plan(steps=(read,))
    rest = wished(then.strip(), request)
    if len(rest.steps) != _STEPS_MAX - 1:
        why = "I am no language model, and do not know how to do this after reading the skill"
        return Plan(answer=f"{why}: {then.strip()[:200]}")
    return Plan(steps=(read, *rest.steps), about=rest.about)


def _one(tool: str, /, **arguments: object) -> Plan:
    return Plan(steps=((Wanted(tool=tool, arguments=arguments),),))


def _call(tool: str, **names: str) -> _Make:
    """Return a maker of one call: each argument is the text of the group it is named with."""

    def make(match: re.Match[str], _offered: Offered) -> Plan:
        found = {argument: match[group] for argument, group in names.items()}
        return _one(tool, **{name: text.strip() for name, text in found.items() if text})

    return make


def _act(tool: str, action: str, **names: str) -> _Make:
    """Return a maker of one call with an `action`."""

    def make(match: re.Match[str], _offered: Offered) -> Plan:
        return _one(tool, action=action, **{k: match[group].strip() for k, group in names.items()})

    return make


def _each(tool: str, argument: str, piece: str) -> _Make:
    """Return a maker of a call for each thing that the wish names."""

    def make(match: re.Match[str], _offered: Offered) -> Plan:
        found = tuple(dict.fromkeys(_bare(each) for each in re.findall(piece, match["what"])))
        if len(found) > _AT_ONCE_MAX:
            return Plan(answer=f"These are {len(found)}; I do at most {_AT_ONCE_MAX} at once.")
        return Plan(steps=(tuple(Wanted(tool=tool, arguments={argument: x}) for x in found),))

    return make


def _recall(match: re.Match[str], _offered: Offered) -> Plan:
    about = (match["what"] or "").strip(" \"'")
    asked = {"days": _NOTES_DAYS} if about else {}
    return Plan(steps=((Wanted(tool="recall", arguments=asked),),), about=about)


def _write(match: re.Match[str], _offered: Offered) -> Plan:
    text = match["what"]
    content = text if text.endswith("\n") else f"{text}\n"
    return _one("write_file", path=_bare(match["path"]), content=content)


def _edit(match: re.Match[str], _offered: Offered) -> Plan:
    return _one(
        "edit_file", path=_bare(match["path"]), old_text=match["old"], new_text=match["new"]
    )


def _list(match: re.Match[str], _offered: Offered) -> Plan:
    return _one("list_files", path=_bare(match["path"])) if match["path"] else _one("list_files")


def _message(match: re.Match[str], _offered: Offered) -> Plan:
    return _one("recall_context", message=int(match["what"]))


def _ask(match: re.Match[str], offered: Offered) -> Plan | None:
    known = _delegates(offered)
    return (
        _one("delegate", task=match["what"], agent=match["name"])
        if match["name"] in known
        else None
    )


def _delegate(match: re.Match[str], offered: Offered) -> Plan:
    required = cast("list[str]", offered["delegate"].parameters.get("required", []))
    if "agent" in required:
        names = ", ".join(_delegates(offered))
        return Plan(answer=f"Say whom: ask NAME to …; I may ask: {names}.")
    return _one("delegate", task=match["what"])


def _send(match: re.Match[str], offered: Offered) -> Plan | None:
    if "to" not in _properties(offered["session"]):
        return None
    return _one("session", action="send", to=match["place"], text=match["what"])


def _delegates(offered: Offered) -> list[str]:
    agent = _properties(offered["delegate"]).get("agent", {})
    return cast("list[str]", agent.get("enum", []))


def _properties(tool: ToolDefinition) -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", tool.parameters.get("properties", {}))


def _is_program(tool: ToolDefinition) -> bool:
    return set(_properties(tool)) in ({"args"}, {"args", "help"})


def _bare(text: str) -> str:
    return text[1:-1] if text[:1] in {'"', "`"} else text


def _short(text: str) -> str:
    return text.partition(". ")[0].partition("; ")[0].rstrip(".")


def _help_lines(offered: Offered) -> Iterable[str]:
    yield from (wish.help for wish in _WISHES if wish.help and wish.tool in offered)
    if "read_skill" in offered:
        yield "what skills do you have, use the skill NAME, use the skill NAME, then: ANY OF THESE"
    for name, tool in offered.items():
        if _is_program(tool):
            manual = f", or {name} help" if "help" in _properties(tool) else ""
            yield f"{name} ARGUMENTS{manual}"
    yield "any tool by its name: what tools do you have, call TOOL {JSON}"


def _tools_answer(offered: Offered) -> str:
    lines = (f"- {name}: {_short(tool.description)}" for name, tool in offered.items())
    return "\n".join(("I can call these tools:", *lines))


def _skills_answer(system: str) -> str:
    index = system.partition("## Skills\n")[2]
    lines = re.findall(r"^- .*$", index, re.MULTILINE)
    return "\n".join(("I have these skills:", *lines)) if lines else "I was told of no skills."


def _said(pattern: str) -> re.Pattern[str]:
    """Return a pattern for a whole message, whatever mark it ends with."""
    return re.compile(rf"(?:please )?(?:{pattern})[?!. ]*", re.IGNORECASE | re.DOTALL)


def _exactly(pattern: str) -> re.Pattern[str]:
    """Return a pattern for a whole message that ends with what is to be kept as it is."""
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_PATH: Final = r'(?:"[^"\n]+"|`[^`\n]+`|[^\s,"`:]*[./][^\s,"`:]*[^\s,"`:?!.])'
_URL: Final = r"https?://[^\s,]*[^\s,?!.]"
_AND: Final = r"(?:\s*,\s*(?:and\s+)?|\s+and\s+)"
_HANDLE: Final = r"[\w-]+"

_HELP: Final = _said(r"/?help|what can you do")
_TOOLS: Final = _said(r"(?:what|which|list|show)(?: me)?(?: your| the)? tools(?: .*)?")
_SKILLS: Final = _said(r"(?:what|which|list|show)(?: me)?(?: your| the)? skills(?: .*)?")
_USE_SKILL: Final = _exactly(
    r"(?:please )?(?:use|read|show|follow) (?:the )?skill (?P<skill>[\w-]+)"
    r"(?:,? (?:and )?then:? (?P<then>\S.*)|[?!. ]*)"
)
_CALL: Final = _exactly(r"call (?P<name>[\w-]+)\s*(?P<arguments>\{.*\})?")

# The first that fits the whole message is fulfilled.
_WISHES: Final[tuple[_Wish, ...]] = (
    _Wish(
        tool="remember",
        help="remember that TEXT: into my notes, which outlast this conversation",
        pattern=_said(r"remember(?: that)?[: ]+(?P<what>\S.*?)"),
        make=_call("remember", content="what"),
    ),
    _Wish(
        tool="recall",
        help="recall, recall WORD, what do you know about WORD: from my notes",
        pattern=_said(
            r"(?:recall|what do you (?:know|remember)|what did i (?:ask|tell) you to remember)"
            r"(?: (?:about )?(?P<what>\S.*?))?"
        ),
        make=_recall,
    ),
    _Wish(
        tool="reflect",
        help="read your long-term notes",
        pattern=_said(r"(?:read|show)(?: me)? your long-term (?:notes|memory)"),
        make=_call("reflect"),
    ),
    _Wish(
        tool="web_fetch",
        help="fetch URL, fetch URL and URL",
        pattern=_said(rf"(?:fetch|open|read|get) (?P<what>{_URL}(?:{_AND}{_URL})*)"),
        make=_each("web_fetch", "url", _URL),
    ),
    _Wish(
        tool="web_search",
        help="search the web for WORDS",
        pattern=_said(r"(?:search the web for|web search(?: for)?) (?P<what>\S.*?)"),
        make=_call("web_search", query="what"),
    ),
    _Wish(
        tool="read_file",
        help="read FILE, read FILE and FILE: a name with a dot or a slash, or in quotes",
        pattern=_said(
            rf"(?:read|show|open)(?: me)?(?: the)?(?: files?)? (?P<what>{_PATH}(?:{_AND}{_PATH})*)"
        ),
        make=_each("read_file", "path", _PATH),
    ),
    _Wish(
        tool="write_file",
        help="write FILE: TEXT",
        pattern=_exactly(
            rf"(?:please )?write (?:to )?(?:the )?(?:file )?(?P<path>{_PATH}):\s*(?P<what>\S.*)"
        ),
        make=_write,
    ),
    _Wish(
        tool="edit_file",
        help='in FILE replace "TEXT" with "TEXT"',
        pattern=_said(
            rf'in (?P<path>{_PATH}),? replace "(?P<old>[^"]+)" (?:with|by) "(?P<new>[^"]*)"'
        ),
        make=_edit,
    ),
    _Wish(
        tool="list_files",
        help="list files, list files in FOLDER",
        pattern=_said(
            rf"(?:list|show)(?: me)?(?: all)?(?: the| your| my)? files"
            rf"(?: in (?P<path>{_PATH}|[\w-]+))?"
        ),
        make=_list,
    ),
    _Wish(
        tool="search_files",
        help="search the files for TEXT",
        pattern=_said(r"search (?:the |your |my )?files for (?P<what>\S.*?)"),
        make=_call("search_files", query="what"),
    ),
    _Wish(
        tool="bash",
        help="run: COMMAND, or $ COMMAND",
        pattern=_exactly(r"(?:\$\s+|(?:please )?run:\s*)(?P<what>\S.*)"),
        make=_call("bash", command="what"),
    ),
    _Wish(
        tool="background_process",
        help="start in the background: COMMAND; processes; log of process H; kill process H",
        pattern=_exactly(r"(?:please )?(?:start|run) in (?:the )?background:\s*(?P<what>\S.*)"),
        make=_act("background_process", "spawn", command="what"),
    ),
    _Wish(
        tool="background_process",
        help="",
        pattern=_said(r"(?:list |show )?(?:the |your )?(?:background )?processes"),
        make=_act("background_process", "list"),
    ),
    _Wish(
        tool="background_process",
        help="",
        pattern=_said(rf"(?:show )?(?:the )?log of process (?P<what>{_HANDLE})"),
        make=_act("background_process", "log", handle="what"),
    ),
    _Wish(
        tool="background_process",
        help="",
        pattern=_said(rf"(?:kill|stop|end) process (?P<what>{_HANDLE})"),
        make=_act("background_process", "kill", handle="what"),
    ),
    _Wish(
        tool="recall_context",
        help="search this conversation for WORDS, read back message NUMBER: all that was said",
        pattern=_said(r"search (?:this|the|our) (?:whole )?conversation for (?P<what>\S.*?)"),
        make=_call("recall_context", search="what"),
    ),
    _Wish(
        tool="recall_context",
        help="",
        pattern=_said(r"(?:read|show) back message (?P<what>\d{1,12})"),
        make=_message,
    ),
    _Wish(
        tool="delegate",
        help="ask AGENT to TASK, delegate: TASK",
        pattern=_exactly(r"(?:please )?ask (?P<name>[\w-]+) to (?P<what>\S.*)"),
        make=_ask,
    ),
    _Wish(
        tool="delegate",
        help="",
        pattern=_exactly(r"(?:please )?delegate:\s*(?P<what>\S.*)"),
        make=_delegate,
    ),
    _Wish(
        tool="session",
        help="list conversations, read conversation ID; where allowed, send to CHANNEL:CHAT: TEXT",
        pattern=_said(r"(?:list|show) (?:the |your |other )*(?:conversations|sessions)"),
        make=_act("session", "list"),
    ),
    _Wish(
        tool="session",
        help="",
        pattern=_said(r"read (?:the )?(?:conversation|session) (?P<what>[\w-]+)"),
        make=_act("session", "read", session_id="what"),
    ),
    _Wish(
        tool="session",
        help="",
        pattern=_exactly(r"send to (?P<place>[^\s:]+:[^\s:]+|[\w-]+):\s+(?P<what>\S.*)"),
        make=_send,
    ),
    _Wish(
        tool="reload_tools",
        help="reload your tools",
        pattern=_said(r"reload (?:the |your )?(?:tools|skills)(?: and (?:tools|skills))?"),
        make=_call("reload_tools"),
    ),
)
