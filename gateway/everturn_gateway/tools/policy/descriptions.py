"""Tools of MCP servers whose words changed after somebody allowed them: asked about anew.

What a pattern allows is a name. What stands behind the name the server says, and it may say another
thing tomorrow: to the model, that is another tool. So the words - description and schema - with
which a tool was allowed are kept, and a call of a tool that describes itself otherwise asks, with
both. The answer that allows it takes the new words over. A server that is `trusted` is not asked
about: its owner stands behind what it says.

The first call that a pattern in a file allows is taken as what its author meant: nobody was shown
the words then. Source: the attack is known as a rug pull; "Tool poisoning attacks", Invariant Labs,
2025-04.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.documents import Document, Form
from everturn_actors.errors import JournalError
from everturn_actors.json_values import as_object
from everturn_actors.model import Approval, FileDigest, ToolCall
from everturn_actors.ports import KeyedStore, Tool, ToolContext, Verdict
from everturn_gateway.tools.places import NOBODY_ANSWERS
from everturn_gateway.tools.policy.gate import PolicyGate
from everturn_gateway.tools.policy.outside.cleaning import without_hidden
from everturn_gateway.tools.policy.subjects import SaysItself, policy_name_of

logger = logging.getLogger(__name__)

SHOWN_CHARACTERS: Final = 700  # of a description in a question, from where the two differ
_ARGUMENT_CHARACTERS: Final = 200  # of what is said of one argument
_ARGUMENTS_MOST: Final = 6  # that are named
_CONTEXT_CHARACTERS: Final = 40  # that are shown before the first difference
_TOLD_MOST: Final = (
    200  # changes that are logged until the next start; people are asked all the same
)
_TOOLS_MOST: Final = 1024  # of one agent that are taken without a person's word
ALLOWED_KEY: Final = "mcp/{agent}.json"
_VERSION: Final = 1


class ToolWords(Struct, frozen=True, kw_only=True):
    """How a tool describes itself."""

    description: str
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    "JSON Schema of its arguments."

    @property
    def digest(self) -> str:
        """Equal only where the words are; the order of keys in a schema says nothing."""
        text = _json([self.parameters, self.description])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _Allowed(Struct, frozen=True, kw_only=True):
    """What is kept of the tools of one agent."""

    words: Mapping[str, ToolWords] = field(default_factory=dict[str, ToolWords])
    "By the name of the tool."
    is_lost: bool = False
    "Whether what was allowed before was damaged, and nobody knows it."


class AllowedWords:
    """The words with which the tools of one agent were allowed; durable."""

    def __init__(self, store: KeyedStore, agent: str) -> None:
        """Keep them in `store`; they are read when they are needed.

        Safe to ask from several conversations at once, as long as one of these has the agent.
        """
        self._document = Document(store, ALLOWED_KEY.format(agent=agent), _FORM)
        self._allowed: _Allowed | None = None
        self._lock = anyio.Lock()
        self._told = set[str]()

    async def of(self, name: str) -> ToolWords | None:
        """Return the words with which a tool was allowed; None = it never was, by these names."""
        async with self._lock:
            return (await self._all()).words.get(name)

    async def takes_new(self) -> bool:
        """Return whether a tool that is not known may be taken as it is by a pattern alone.

        Not where what was kept was damaged, and nobody knows what was allowed before; nor where
        there are so many that a server makes names up.
        """
        async with self._lock:
            allowed = await self._all()
            return len(allowed.words) < _TOOLS_MOST and not allowed.is_lost

    async def keep(self, name: str, words: ToolWords) -> None:
        """Take the words of a tool over; return when that is durable, or cannot be.

        Where it cannot be written it holds until the gateway stops, and the log says so.
        """
        async with self._lock:
            known = await self._all()
            if known.words.get(name) == words:
                return
            self._allowed = replace(known, words={**known.words, name: words})
            try:
                await self._document.write(self._allowed)
            except JournalError as error:
                fields = {"place": self._document.place, "error": str(error)}
                logger.warning("how a tool was allowed cannot be kept", extra=fields)

    def tell_once(self, name: str, words: ToolWords) -> None:
        """Log that a tool describes itself anew, once for each way that it does."""
        if (key := f"{name} {words.digest}") not in self._told and len(self._told) < _TOLD_MOST:
            self._told.add(key)
            logger.warning("an MCP tool describes itself anew", extra={"tool": name})

    async def _all(self) -> _Allowed:
        if self._allowed is None:
            try:
                self._allowed = await self._document.read()
            except JournalError as error:
                fields = {"place": self._document.place, "error": str(error)}
                logger.error("how tools were allowed is lost; each is asked about", extra=fields)
                self._allowed = _Allowed(is_lost=True)
                with suppress(JournalError):
                    await self._document.quarantine()
        return self._allowed


class DescriptionGate:
    """A gate behind which a tool runs by a pattern only as it described itself when it was allowed.

    It never allows what the gate before it does not.
    """

    def __init__(self, before: PolicyGate, allowed: AllowedWords) -> None:
        """Stand behind `before`."""
        self._before, self._allowed = before, allowed

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say whether a call may run."""
        verdict = await self._before.evaluate(call, tool, context)
        name = _foreign_name(tool)
        if verdict.effect == "deny" or not name or self._before.policy.mode == "dangerous":
            return verdict
        definition = tool.definition
        words = ToolWords(description=definition.description, parameters=definition.parameters)
        held = FileDigest(path=f"the description of {name}", digest=words.digest)
        if _is_approved(_approval(call, context), held):
            await self._allowed.keep(name, words)
            return _held(verdict, held) if verdict.effect == "ask" else verdict
        known = await self._allowed.of(name)
        if known == words:
            return _held(verdict, held) if verdict.effect == "ask" else verdict
        if known is None and verdict.effect == "ask":
            return _held(verdict, held)
        if known is None and await self._allowed.takes_new():
            await self._allowed.keep(name, words)
            return verdict
        self._allowed.tell_once(name, words)
        return self._asking(verdict, context, name, held, change_text(known, words))

    async def remember(self, pattern: str) -> None:
        """Allow `pattern` for good; see `PolicyGate.remember`."""
        await self._before.remember(pattern)

    def _asking(
        self, verdict: Verdict, context: ToolContext, name: str, held: FileDigest, change: str
    ) -> Verdict:
        """Return the question about a tool that says another thing than when it was allowed."""
        why = f"{name} is described in another way than when it was allowed"
        if context.key.channel in NOBODY_ANSWERS:
            # The words themselves are the server's, and go to people alone.
            hint = "nobody can be asked in this conversation; do it another way, or report it"
            return Verdict(effect="deny", reason=f"{why}; {hint}")
        policy = self._before.policy
        reason = f"{why}; who allows it takes the new one over. {change}"
        return Verdict(
            effect="ask",
            reason="\n".join(filter(None, (verdict.reason, reason))),
            approvers=policy.approvers,
            timeout_s=policy.approval_timeout_s,
            files=(*verdict.files, held),
        )


def change_text(before: ToolWords | None, now: ToolWords) -> str:
    """Return for people how two ways to describe a tool differ. Pure.

    What the server wrote stands in quotes that it cannot close, on one line.
    """
    if before is None:
        shown = _quoted(now.description, SHOWN_CHARACTERS)
        return f"How it was described then is not known. Its description now: {shown}"
    lines: list[str] = []
    if before.description != now.description:
        start = _common(before.description, now.description)
        lines += [
            f"Before: {_quoted(before.description, SHOWN_CHARACTERS, start)}",
            f"Now: {_quoted(now.description, SHOWN_CHARACTERS, start)}",
        ]
    return "\n".join([*lines, *_argument_lines(before.parameters, now.parameters)])


def _argument_lines(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    old, new = _properties(before), _properties(now)
    differing = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    lines = [
        f"Argument {_quoted(name, _ARGUMENT_CHARACTERS)},"
        f" before: {_told(old.get(name))}, now: {_told(new.get(name))}"
        for name in differing[:_ARGUMENTS_MOST]
    ]
    if more := len(differing[_ARGUMENTS_MOST:]):
        lines.append(f"and {more} more arguments")
    rest = [{k: v for k, v in each.items() if k != "properties"} for each in (before, now)]
    if rest[0] != rest[1]:
        lines.append(f"The rest of its schema, before: {_told(rest[0])}, now: {_told(rest[1])}")
    return lines


def _properties(parameters: Mapping[str, object]) -> Mapping[str, object]:
    return as_object(parameters.get("properties"))


def _told(value: object) -> str:
    return "none" if value is None else _quoted(_json(value), _ARGUMENT_CHARACTERS)


def _quoted(text: str, most: int, start: int = 0) -> str:
    """Return a text of others as one line in quotes, cut to what is said from `start` on."""
    begin = max(0, start - _CONTEXT_CHARACTERS)
    part = text[begin : begin + most]
    plain = "".join(c if c.isprintable() else " " for c in without_hidden(part))
    plain = plain.translate(_QUOTES)
    more = len(text) - begin - len(part)
    return f"“{'…' if begin else ''}{plain}”" + (f" and {more} more characters" if more else "")


_QUOTES: Final = str.maketrans({"“": "'", "”": "'", "„": "'", "‟": "'", "❝": "'", "❞": "'"})


def _common(one: str, other: str) -> int:
    """Return how many characters two texts begin with that are the same."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _foreign_name(tool: Tool) -> str:
    """Return the name in patterns of a tool that nobody vouches for; empty where somebody does."""
    return policy_name_of(tool) if isinstance(tool, SaysItself) and tool.says_itself else ""


def _approval(call: ToolCall, context: ToolContext) -> Approval | None:
    current = context.conversation.current
    step = current.step if current is not None else None
    return step.approvals.get(call.call_id) if step is not None else None


def _is_approved(approval: Approval | None, held: FileDigest) -> bool:
    return approval is not None and approval.is_allowed and held in approval.files


def _held(verdict: Verdict, held: FileDigest) -> Verdict:
    return replace(verdict, files=(*verdict.files, held))


# --- how they are written down ---


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _encoded(allowed: _Allowed) -> bytes:
    tools = {
        name: {"description": each.description, "parameters": dict(each.parameters)}
        for name, each in sorted(allowed.words.items())
    }
    document = {"version": _VERSION, "is_lost": allowed.is_lost, "tools": tools}
    return json.dumps(document, ensure_ascii=True, indent=1).encode()


def _decoded(data: bytes) -> _Allowed:
    document = json.loads(data)
    if document["version"] != _VERSION:
        msg = f"it is of version {document['version']!r}"
        raise ValueError(msg)
    words = {
        str(name): ToolWords(
            description=str(each["description"]), parameters=dict(each["parameters"])
        )
        for name, each in document["tools"].items()
    }
    return _Allowed(words=words, is_lost=bool(document["is_lost"]))


_FORM: Final = Form(encode=_encoded, decode=_decoded, empty=_Allowed())
