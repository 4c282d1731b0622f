"""Commands of a terminal that end with lines to show: those of `chat` and of `attach`."""

from __future__ import annotations

from shutil import get_terminal_size

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import Outage
from everturn_channels.money import dollars
from everturn_channels.names import clean
from everturn_channels.terminal.attachments import Basket
from everturn_channels.terminal.client import Status
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.gauge import BLOCKS, show_context
from everturn_channels.terminal.lookups import (
    listed,
    look_up,
    obey_model,
    prompts_shown,
    session_lines,
    usage_text,
)
from everturn_channels.terminal.reply import Piece
from everturn_channels.terminal.slash import DECISIONS, Command, help_text

NO_SESSION = "no session yet; your message starts one"


async def obey(
    command: Command,
    conversation: Conversation,
    basket: Basket,
    *,
    columns: int = 0,
    bars: tuple[str, str] = BLOCKS,
) -> tuple[Piece, ...]:
    """Do what a command says; return what to show.

    Args:
        command: One that begins no turn, and leaves the terminal where it is.
        conversation: What it is about.
        basket: The files that go with the next message.
        columns: How wide a line may be; 0 = as wide as the terminal of stdout.
        bars: What bars are made of.

    Raises:
        CoreError, ChannelError: It cannot be done.
    """
    if command.name == "context":
        report = await conversation.context()
        if report is None:
            return (_note(NO_SESSION),)
        columns = columns or get_terminal_size().columns
        return show_context(report, columns=columns, bars=bars)
    text = await _obeyed(command, conversation, basket)
    return (_note(text),) if text else ()


async def _obeyed(command: Command, conversation: Conversation, basket: Basket) -> str:
    match command.name:
        case "help":
            return help_text()
        case "status":
            status = await conversation.status()
            return describe(status) if status else NO_SESSION
        case "model":
            return await obey_model(conversation, command.text)
        case "usage":
            return await usage_text(conversation)
        case "sessions":
            return session_lines(await listed(conversation, command.text))
        case "attach":
            return await basket.obey(command.text)
        case "prompt":
            return await prompts_shown(conversation)
        case "reset" | "new":
            was = await conversation.reset()
            ended = "(the session has ended; your next message starts a new one)"
            return ended if was else "(there is no session to end)"
        case "stop":
            return "" if await conversation.cancel() else "(no turn is running)"
        case _:
            return await _obeyed_with_words(command, conversation)


async def _obeyed_with_words(command: Command, conversation: Conversation) -> str:
    match command.name:
        case "allow" | "always" | "deny":
            await conversation.decide(DECISIONS[command.name], command.text)
            return ""
        case "answer":
            await conversation.decide("answer", answer=command.text)
            return ""
        case "search" | "memory" | "pin" | "unpin" | "undo":
            return await look_up(conversation, command.name, command.text)
        case _:
            msg = f"/{command.name} needs a terminal: it is for `everturn chat` at one"
            raise InvalidInputError(msg)


def turns_text(turns: int) -> str:
    """Return how many turns there are, in words."""
    return "1 turn" if turns == 1 else f"{turns:,} turns"


def describe(status: Status) -> str:
    """Return what `/status` shows, one fact a line."""
    state = "answering" if status.busy else status.status
    usage = status.usage
    read = f"{usage.input_tokens} in ({usage.cached_tokens} cached)"
    waits = (
        f"waits     call {clean(each.call_id)}: {clean(each.reason) or 'to be allowed'}"
        for each in status.approvals
    )
    return "\n".join(
        (
            f"session   {status.session_id} ({state})",
            f"agent     {status.key.agent}",
            f"turns     {status.turns}, messages {status.messages}",
            f"tokens    {read}, {usage.output_tokens} out",
            *waits,
            *((_outage(status.outage),) if status.outage else ()),
            *((f"waits     for {clean(status.waiting_for)}",) if status.waiting_for else ()),
            *((f"cost      {dollars(usage.cost_nanodollars)}",) if usage.cost_nanodollars else ()),
        )
    )


def _outage(outage: Outage) -> str:
    return f"model     {outage.described} ({clean(outage.error)})"


def _note(text: str) -> Piece:
    return Piece(style="note", text=text)
