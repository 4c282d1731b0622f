"""An agent of the gateway as an editor drives it: its sessions, prompts and permissions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial, wraps
from typing import Final, ParamSpec, TypeVar
from uuid import uuid4

import anyio
from acp import PROTOCOL_VERSION, Client, RequestError
from acp.schema import (
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
)
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct

from everturn_actors.errors import CoreError, InvalidInputError, UnknownSessionError
from everturn_actors.events import ApprovalAsked, ApprovalDecided
from everturn_actors.model import ConversationKey
from everturn_actors.service import TextDelta, Update
from everturn_actors.supervisor import attempt
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.conversation import Answer, Conversation
from everturn_gateway.acp.permissions import Permissions
from everturn_gateway.acp.prompts import Block, message_of
from everturn_gateway.acp.updates import AcpUpdate, Updates
from everturn_gateway.client import Api, SessionClient
from everturn_gateway.client.history import past_events

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

CHANNEL: Final = "http"  # whose conversations those of editors are
PAGE: Final = 50  # sessions
_INVALID_PARAMS: Final = -32602
_INTERNAL: Final = -32603


def _faults_as_errors(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Tell what a method raises in the protocol's own errors, and nothing of a fault but that."""

    @wraps(method)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except UnknownSessionError as error:
            raise RequestError.resource_not_found(error.session_id) from error
        except InvalidInputError as error:
            raise RequestError(_INVALID_PARAMS, str(error)) from error
        except (CoreError, ChannelError) as error:
            raise RequestError(_INTERNAL, str(error)) from error
        except RequestError:
            raise
        except Exception as error:
            logger.exception("a request of an editor failed")
            msg = "the command failed while it handled this request; the log says why"
            raise RequestError(_INTERNAL, msg) from error  # its text may hold a secret

    return run


class _Prompt(Struct, kw_only=True, eq=False):
    """One prompt that is under way."""

    conversation: Conversation
    seq: int = 0
    "Of the message's event; 0 = it is not accepted yet."
    is_cancelled: bool = False
    scope: anyio.CancelScope
    "Around all that is done for it here; the turn does not end with it."
    done: anyio.Event


class EditorAgent:
    """What an editor can ask; `acp` calls these methods, each request in a task of its own."""

    def __init__(self, api: Api, agent: str, *, root: str, version: str) -> None:
        """Prepare.

        Args:
            api: The way to the gateway.
            agent: Who answers.
            root: The agent's workspace, absolute.
            version: Of this program.
        """
        self._api, self._client = api, SessionClient(api)
        self._agent, self._root, self._version = agent, root, version
        self._editor: Client | None = None
        self._prompts: list[_Prompt] = []

    def on_connect(self, conn: Client) -> None:
        """Take the way back to the editor."""
        self._editor = conn

    async def initialize(self, protocol_version: int, **_rest: object) -> InitializeResponse:
        """Say what this agent can do."""
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(
                    image=True, audio=True, embedded_context=True
                ),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
            auth_methods=[],
            agent_info=Implementation(name="everturn", title="Everturn", version=self._version),
        )

    @_faults_as_errors
    async def new_session(self, cwd: str, **_rest: object) -> NewSessionResponse:
        """Begin a conversation. The agent works in its own workspace, with its own tools."""
        del cwd
        # A new session is a conversation of its own.
        key = ConversationKey(channel=CHANNEL, chat=f"acp/{uuid4().hex}", agent=self._agent)
        return NewSessionResponse(session_id=await self._client.open(key))

    @_faults_as_errors
    async def load_session(self, cwd: str, session_id: str, **_rest: object) -> LoadSessionResponse:
        """Tell all that was said and done in a session, in order."""
        del cwd
        status = await self._client.status(session_id)
        if status.key.agent != self._agent:
            msg = f"the session {session_id} belongs to the agent {status.key.agent!r}"
            raise InvalidInputError(msg)
        updates = Updates(self._root, shows_users=True)
        if status.last_seq:
            past = past_events(self._api, session_id, until=status.last_seq)
            async with aclosing(past) as events:
                async for event in events:
                    told, _ = updates.read(event)
                    await self._tell(session_id, told)
        return LoadSessionResponse()

    @_faults_as_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_rest: object
    ) -> ListSessionsResponse:
        """Return a page of the agent's sessions, newest first."""
        found = await self._client.sessions(after=cursor or "", limit=PAGE)
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=each.session_id,
                    cwd=cwd or self._root,
                    title=f"{each.key.agent}, {each.created_at:%Y-%m-%d %H:%M} UTC",
                    updated_at=each.updated_at.isoformat(),
                )
                for each in found
                if each.key.agent == self._agent  # a session cannot change its agent
            ],
            # Of what was read, not of what is shown.
            next_cursor=found[-1].session_id if len(found) == PAGE else None,
        )

    @_faults_as_errors
    async def prompt(
        self, session_id: str, prompt: Sequence[Block], **_rest: object
    ) -> PromptResponse:
        """Hand in a message and tell of its turn until that is done.

        The turn belongs to the session: an editor that goes leaves it running.
        """
        text, uploads = await run_sync(message_of, prompt)
        conversation = Conversation(self._client, session_id=session_id)
        current = _Prompt(conversation=conversation, scope=anyio.CancelScope(), done=anyio.Event())
        self._prompts.append(current)
        answer = Answer()
        try:
            with current.scope:
                current.seq = await conversation.hand_in(text, uploads)
                if current.is_cancelled:
                    await conversation.stop(current.seq)
                answer = await self._follow(current)
        finally:
            self._prompts.remove(current)
            current.done.set()
        if answer.outcome == "answered":
            return PromptResponse(stop_reason="end_turn")
        if answer.outcome == "cancelled":
            return PromptResponse(stop_reason="cancelled")
        raise RequestError(_INTERNAL, f"no answer: {answer.error or answer.outcome}")

    async def cancel(self, session_id: str, **_rest: object) -> None:
        """Stop the turns of the prompts that are under way."""
        for current in tuple(self._prompts):
            if current.conversation.session_id == session_id:
                current.is_cancelled = True
                if current.seq:
                    # Before there is a number, `prompt` does it itself.
                    await current.conversation.stop(current.seq)

    async def leave(self) -> None:
        """End what is under way here, because the editor is gone; the turns go on."""
        for current in tuple(self._prompts):
            current.scope.cancel()  # the turn goes on: only its editor is gone
            await current.done.wait()

    async def _follow(self, current: _Prompt) -> Answer:
        answers = [Answer()]
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            # Raised outside the group, which would wrap it.
            failure = await attempt(partial(self._tell_turn, current, answers, tasks))
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return answers[-1]

    async def _tell_turn(self, current: _Prompt, answers: list[Answer], tasks: TaskGroup) -> None:
        """Tell the editor of one turn; `answers` gets what it comes to."""
        assert self._editor is not None  # whoever asks is connected
        conversation, updates = current.conversation, Updates(self._root)
        permissions = Permissions(self._editor, conversation, tasks)
        async with aclosing(conversation.answer(current.seq)) as found:
            async for update in found:
                answers[-1] = answers[-1].after(update)
                told, pieces = updates.read(update)
                await self._tell(conversation.session_id, told)
                text = "\n".join(piece.text for piece in pieces).strip()
                _ask(update, updates, permissions, text)

    async def _tell(self, session_id: str, told: Sequence[AcpUpdate]) -> None:
        assert self._editor is not None
        for each in told:
            await self._editor.session_update(session_id=session_id, update=each)


def _ask(update: Update, updates: Updates, permissions: Permissions, text: str) -> None:
    """Ask for a permission where the turn waits for one, and stop where it does no more."""
    if isinstance(update, TextDelta):
        return
    match update.body:
        case ApprovalAsked() as asked:
            permissions.ask(asked, updates.call(asked.call_id), text)
        case ApprovalDecided(call_id=call_id):
            permissions.close(call_id)
        case _:
            pass
