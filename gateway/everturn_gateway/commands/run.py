"""`everturn run`: one message, one answer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
from msgspec import structs

from everturn_actors.errors import InvalidInputError
from everturn_actors.events import (
    Announced,
    ApprovalAsked,
    Body,
    CallFinished,
    ContextReduced,
    Event,
    ModelCallFailed,
)
from everturn_actors.model import Upload
from everturn_actors.state.validation import check_uploads
from everturn_channels.names import clean
from everturn_channels.terminal.attachments import read_upload
from everturn_channels.terminal.client import Client
from everturn_channels.terminal.conversation import Answer, Conversation
from everturn_channels.terminal.questions import Questions
from everturn_channels.terminal.reply import ReplyReader
from everturn_channels.terminal.screen import Screen, stream_writer
from everturn_gateway.commands.clients import conversation_key, open_client, pick_agent
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    from everturn_channels.terminal import prompt
else:
    prompt = late("everturn_channels.terminal.prompt")

_STDIN_BYTES_MAX = 8 * 1024 * 1024  # the core refuses less; this only bounds what is read
_CANCEL_S = 10.0  # for closing a turn that is given up


def run(
    options: Options,
    prompt: str,
    *,
    agent: str,
    session_id: str,
    as_json: bool,
    timeout_s: float | None,
    attach: Sequence[str] = (),
) -> int:
    """Send one message and print the answer; return the exit code.

    Args:
        options: Where the configuration is.
        prompt: The message; `-` = it comes from stdin.
        agent: Who answers; empty = the only one, or `assistant`.
        session_id: Goes on in this session; empty = a new one.
        as_json: Print a JSON object instead of the text.
        timeout_s: Gives up after so long, in seconds; None = the agent's own deadline holds.
        attach: Paths of files that come with it.
    """
    if session_id and agent:
        msg = "--session names a session with its agent: leave --agent out"
        raise GatewayError(msg)
    text = _read_stdin() if prompt == "-" else prompt
    if not text.strip() and not attach:
        msg = "the message is empty"
        raise InvalidInputError(msg)
    config = load(options)

    async def main() -> int:
        attachments = [await read_upload(path) for path in attach]
        check_uploads(attachments)
        async with open_client(config) as client:
            return await _exchange(
                client,
                config,
                text,
                attachments,
                agent=agent,
                session_id=session_id,
                as_json=as_json,
                timeout_s=timeout_s,
            )

    return run_async(main)


async def _exchange(
    client: Client,
    config: Config,
    text: str,
    attachments: Sequence[Upload],
    *,
    agent: str,
    session_id: str,
    as_json: bool,
    timeout_s: float | None,
) -> int:
    conversation = Conversation(client, session_id=session_id)
    if not session_id:
        name = await pick_agent(agent, client, config)
        key = conversation_key(name, suffix=f"/{uuid4().hex[:12]}")  # no other run goes on with it
        conversation = Conversation(client, key=key)
    status = await conversation.open()
    answer, gave_up = await _ask(
        conversation, text, attachments, streams=not as_json, timeout_s=timeout_s
    )
    if as_json:
        found = structs.asdict(answer)
        data = {"session_id": conversation.session_id, "agent": status.key.agent, **found}
        print_json(data, indent=None)
    if gave_up == "interrupted":
        return EXIT_INTERRUPTED
    if gave_up == "late":
        say(f"no answer within {timeout_s:g} s; the turn was cancelled")
        return EXIT_FAILED
    if answer.outcome != "answered":
        say(f"no answer: {clean(answer.error) or answer.outcome}")
        return EXIT_FAILED
    return EXIT_OK


async def _ask(
    conversation: Conversation,
    text: str,
    attachments: Sequence[Upload],
    *,
    streams: bool,
    timeout_s: float | None,
) -> tuple[Answer, str]:
    """Return the answer, and why it was given up ("" where it was not)."""
    answer, gave_up = Answer(), ""
    reply, screen = ReplyReader(), Screen(stream_writer(sys.stdout), colour=False)
    aside = Screen(stream_writer(sys.stderr), colour=False)
    async with anyio.create_task_group() as tg:

        async def give_up_on_interrupt() -> None:
            nonlocal gave_up
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    gave_up = "interrupted"
                    exchange.cancel()

        tg.start_soon(give_up_on_interrupt)
        questions = Questions(conversation, _asker(), aside, tg)
        with anyio.move_on_after(timeout_s) as exchange:
            seq = await conversation.hand_in(text, attachments)
            async with aclosing(conversation.answer(seq)) as updates:
                async for update in updates:
                    answer = answer.after(update)
                    body = update.body if isinstance(update, Event) else None
                    if isinstance(body, ContextReduced | ModelCallFailed) and body.line:
                        say(body.line)
                    pieces = reply.read(update)
                    if streams and not isinstance(body, Announced):  # it is no part of the answer
                        screen.show([piece for piece in pieces if piece.style == "reply"])
                    if isinstance(body, ApprovalAsked) or _sends_files(body):
                        aside.show([piece for piece in pieces if piece.style != "reply"])
                    questions.read(update)
        if exchange.cancelled_caught:
            gave_up = gave_up or "late"
            with anyio.move_on_after(_CANCEL_S):
                await conversation.cancel()
            answer = answer.after_cancel()
            if streams:
                screen.end_line()
        tg.cancel_scope.cancel()
    return answer, gave_up


def _sends_files(body: Body | None) -> bool:
    """Whether people are told of a file, which may be all that the answer is."""
    return isinstance(body, CallFinished) and bool(body.attachments)


class _Person:
    """Whoever sits at this terminal."""

    async def choose(self, question: str) -> str:
        """Ask; see `Asker.choose`."""
        return await prompt.choose(question)


def _asker() -> _Person | None:
    """Return the person to ask; None where input or output is no terminal."""
    return _Person() if sys.stdin.isatty() and sys.stdout.isatty() else None


def _read_stdin() -> str:
    raw = sys.stdin.buffer.read(_STDIN_BYTES_MAX)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"the input is not UTF-8: byte {error.start + 1}"
        raise InvalidInputError(msg) from None
