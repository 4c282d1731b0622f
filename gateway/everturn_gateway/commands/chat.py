"""`everturn chat` and `everturn attach`."""

from __future__ import annotations

import sys

from everturn_channels.terminal.attach import Attach
from everturn_channels.terminal.chat import Chat
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.live.chat import LiveChat, TerminalOf
from everturn_channels.terminal.live.markdown import Look
from everturn_channels.terminal.prompt import PipeReader, PlainTerminal, open_history
from everturn_channels.terminal.screen import bars_in, stream_writer, wants_colour
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.clients import conversation_key, open_client, pick_agent
from everturn_gateway.commands.first_steps.offer import offer_setup
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.screens import stdout_screen
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.private_environ import process_environ
from everturn_gateway.workspace_files import HISTORY_NAME


def chat(options: Options, *, agent: str, session_id: str, new: bool) -> int:
    """Talk to an agent until the person leaves; return the exit code.

    Args:
        options: Where the configuration is.
        agent: Its name; empty = the only one, or `assistant`.
        session_id: Exactly this session; empty = the user's conversation with the agent.
        new: Start a new session.
    """
    if session_id and (new or agent):
        msg = "--session names a session that exists, with its agent: leave the others out"
        raise GatewayError(msg)
    config, began_at = load(options), SystemClock().now()
    if offer_setup(options, config):
        config = load(options)

    async def main() -> int:
        async with open_client(config) as client:
            conversation = Conversation(client, session_id=session_id)
            if not session_id:
                name = await pick_agent(agent, client, config)
                conversation = Conversation(client, key=conversation_key(name))
            if is_terminal() and is_plain():
                plain = PlainTerminal(sys.stdin.fileno(), stream_writer(sys.stdout))
                talk = Chat(conversation, plain, stdout_screen(), began_at=began_at, asker=plain)
                return await talk.run(new=new)
            if is_terminal():
                terminal = await this_terminal(config)
                live = LiveChat(conversation, client, terminal, began_at=began_at)
                return await live.run(new=new)
            reader = PipeReader(sys.stdin.buffer)
            return await Chat(conversation, reader, stdout_screen(), began_at=began_at).run(new=new)

    return run_async(main)


def attach(options: Options, session_id: str, *, read_only: bool, last: int) -> int:
    """Follow a session, and hand in what is typed; return the exit code.

    Args:
        options: Where the configuration is.
        session_id: Which session.
        read_only: Only look on.
        last: How many messages of the past to begin with.
    """
    config = load(options)

    async def main() -> int:
        async with open_client(config, resume=not read_only) as client:
            if not read_only and is_terminal() and not is_plain():
                conversation = Conversation(client, session_id=session_id)
                live = LiveChat(conversation, client, await this_terminal(config))
                return await live.run(last=last)
            reader = None if read_only else PipeReader(sys.stdin.buffer)
            view = Attach(client, session_id, reader=reader, screen=stdout_screen())
            return await view.run(last=last)

    return run_async(main)


def is_terminal() -> bool:
    """Whether a person types here, and sees what is written."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def is_plain() -> bool:
    """Whether the terminal knows no escape sequences: lines are all that can be written there."""
    return process_environ().get("TERM") == "dumb"


async def this_terminal(config: Config) -> TerminalOf:
    """Return what the person sits at, with what was typed on other days."""
    environ = process_environ()
    encoding = sys.stdout.encoding or "utf-8"
    look = Look(colour=wants_colour(sys.stdout, environ), styles=True, encoding=encoding)
    return TerminalOf(
        look=look,
        bars=bars_in(encoding),
        history=await open_history(config.workspace / HISTORY_NAME),
        environ=environ,
        now=SystemClock().now,
    )
