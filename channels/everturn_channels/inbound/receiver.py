"""What becomes of messages that arrive, and of edits of them.

Everything here returns when it is durable, or settled that it never will be.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import (
    ActorFailedError,
    BusyError,
    CoreError,
    CorruptJournalError,
    InvalidInputError,
    QueueFullError,
    SessionQuarantinedError,
    UnknownAgentError,
    UnknownFormatError,
    UnknownSessionError,
    UnusableModelError,
)
from everturn_actors.model import (
    IMAGE_TYPES,
    ConversationKey,
    IncomingMessage,
    Queueing,
    Upload,
)
from everturn_actors.service import Submission
from everturn_channels.adapter import Command, Edit, Message
from everturn_channels.inbound.access_control import (
    DAMAGED,
    FAILING,
    NOT_AVAILABLE,
    AccessControl,
    Admission,
    log_damaged,
)
from everturn_channels.inbound.file_fetch import AT_ONCE, Fetched, fetch_files, saved_name
from everturn_channels.inbound.message_text import ambient_text, compose, edit_text
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.inbound.status_reactions import StatusReactor
from everturn_channels.inbound.submission_rules import ambient_rules, message_key, queueing
from everturn_channels.inbound.text_files import text_of
from everturn_channels.languages import speaking, t
from everturn_channels.rate_limits import Cooldown
from everturn_channels.settings import QueueRules
from everturn_channels.texts import (
    busy,
    nothing_to_read,
    queue_full,
    refused_file,
    sentence,
)

logger = logging.getLogger(__name__)

FETCH_HOLD_MAX_S: Final = 10.0  # of what the fetching of one part is thought to say of the next
DELETABLE_MAX: Final = 4096  # messages of which is known to which conversation they belong
EXTRAS_MAX: Final = 64  # messages whose files' text is kept for an edit: those of the last moments
EXTRAS_CHARS: Final = 64 * 1024  # of one of them


def _why_not(fetched: Sequence[Fetched]) -> tuple[str, ...]:
    """Return what is said of each file that was not taken."""
    return tuple(refused_file(each.name, each.why_not()) for each in fetched if each.upload is None)


class _Extras(Struct, frozen=True, kw_only=True):
    """What a message holds beside its text, so that an edit of the text loses none of it."""

    message: Message
    texts: tuple[tuple[str, str], ...]
    saved: tuple[tuple[str, str], ...]
    refused: tuple[str, ...]


class _Taken(Struct, frozen=True):
    """A message that was handed in."""

    key: ConversationKey
    name: str
    "Its idempotency key."
    is_for_us: bool
    "Whether it was said to the agent, and not beside."


class Receiver:
    """Takes the messages of one channel. Those of one chat come one after the other."""

    def __init__(
        self,
        channel: RunningChannel,
        tasks: BackgroundTasks,
        notifier: Notifier,
        access: AccessControl,
    ) -> None:
        self._adapter, self._context = channel.adapter, channel.context
        self._settings, self._limits = channel.settings, channel.limits
        self._tasks, self._notifier, self._access = tasks, notifier, access
        self._fields = {"channel": channel.name}
        self._worded: Cooldown[tuple[str, str, str]] = Cooldown(self._limits.word_every_s)
        self._holding = anyio.CapacityLimiter(AT_ONCE)
        self._reactor = StatusReactor(channel.adapter, channel.settings, tasks)
        self._extras: OrderedDict[str, _Extras] = OrderedDict()
        self._taken: OrderedDict[tuple[str, str], _Taken] = OrderedDict()

    # --- messages ---

    async def message(self, message: Message) -> None:
        """Take a message; return when it is durable, or refused.

        What it raises is judged by `dispositions`; TimeoutError: neither could be brought about.
        """
        chat, sender = message.chat, message.sender

        async def notify(text: str) -> None:
            self._say(message, text)

        with anyio.fail_after(self._limits.take_s):
            admission = await self._access.admit(
                chat, sender, is_addressed=message.is_addressed, notify=notify
            )
        if admission is None or admission.decision.action == "ignore":
            return
        is_for_us = admission.decision.action == "answer"
        if self._access.is_flood(message):
            # What was not said to the agent is dropped without a word.
            if is_for_us and (word := self._access.flood_word(message)):
                self._say(message, word)
        elif is_for_us and (message.text.strip() or message.files or message.described):
            await self._take(message, admission)
        elif is_for_us and message.unsupported:
            self._word(message, nothing_to_read(message.unsupported))
        elif is_for_us and message.is_addressed and (message.quoted or chat.type != "dm"):
            await self._take(message, admission)  # a name alone: what was said before is meant
        elif message.text.strip() or message.files or message.described or message.unsupported:
            with anyio.fail_after(self._limits.take_s):
                await self._keep_ambient(message, admission)

    async def _keep_ambient(self, message: Message, admission: Admission) -> None:
        """Keep a message that is not for the agent; its files are not fetched."""
        decision = admission.decision
        incoming = IncomingMessage(
            text=ambient_text(message),
            kind="ambient",
            key=admission.key,
            sender=message.sender.id,
            idempotency_key=message_key(admission.key, message.id),
            untrusted=decision.untrusted or message.is_outside,
            ambient=ambient_rules(decision.buffer, decision.shown),
        )
        await self._submit(message, incoming, decision.queue)

    async def _take(self, message: Message, admission: Admission) -> None:
        """Fetch what comes with a message and hand it to its conversation."""
        if not message.files:
            extras = _Extras(message=message, texts=(), saved=(), refused=())
            with anyio.fail_after(self._limits.take_s):
                await self._hand_in(extras, admission, (), 0)
            return
        # Until it is handed in: its files are in memory as long. Those before it are waited for
        # without a deadline of its own, because each of them has one.
        async with self._holding:
            with anyio.fail_after(self._limits.take_s):
                await self._take_files(message, admission)

    async def _take_files(self, message: Message, admission: Admission) -> None:
        """Fetch the files of a message and hand it in with them."""
        began = anyio.current_time()
        # Before it is accepted: afterwards the platform would not give them again.
        fetched = await fetch_files(
            message.files,
            limit_bytes=self._settings.files_max_bytes,
            retry_s=self._limits.fetch_retry_s,
        )
        # The other parts of an album may take as long.
        took_s = min(anyio.current_time() - began, FETCH_HOLD_MAX_S)
        why_not = _why_not(fetched)
        if why_not:
            self._word(message, "\n".join(why_not))
        with speaking("en"):  # as a model reads it
            refused = _why_not(fetched)
        uploads = tuple(each.upload for each in fetched if each.upload is not None)
        if not uploads and not message.text.strip() and not message.described:
            return  # nothing is left of it, and its sender was told why
        texts, saved = await self._placed(admission.key.agent, fetched)
        extras = _Extras(
            message=replace(message, files=()),
            texts=texts,
            saved=saved,
            refused=refused,
        )
        await self._hand_in(extras, admission, uploads, took_s)

    async def _placed(
        self, agent: str, fetched: Sequence[Fetched]
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Return which files are shown as text, and where others were put for the tools."""
        texts: list[tuple[str, str]] = []
        saved: list[tuple[str, str]] = []
        for each in fetched:
            upload = each.upload
            if upload is None or upload.media_type in IMAGE_TYPES:
                continue
            shown = upload.file_name or upload.media_type
            text = text_of(upload.file_name, upload.media_type, upload.data)
            if text is not None:
                texts.append((shown, text))  # a model reads it in place, without a tool
                continue
            name = await saved_name(upload)
            try:
                path = await self._context.save_file(agent, name, upload.data)
            except OSError as error:
                logger.warning(
                    "a file could not be put where the tools read it",
                    extra={**self._fields, "agent": agent, "error": str(error)},
                )
                continue
            if path is not None:
                saved.append((shown, path))
        return tuple(texts), tuple(saved)

    async def _hand_in(
        self,
        extras: _Extras,
        admission: Admission,
        uploads: tuple[Upload, ...],
        took_s: float,
    ) -> None:
        message, decision = extras.message, admission.decision
        in_group = message.chat.type != "dm"
        incoming = IncomingMessage(
            text=compose(
                message,
                in_group=in_group,
                texts=extras.texts,
                saved=extras.saved,
                refused=extras.refused,
            ),
            key=admission.key,
            sender=message.sender.id,
            idempotency_key=message_key(admission.key, message.id),
            attachments=uploads,
            untrusted=decision.untrusted or message.is_outside,
            reply_to=message.id if in_group else "",
            queueing=queueing(decision.queue, is_album=message.is_album, took_s=took_s),
        )
        self._remember(incoming.idempotency_key, extras)  # an edit brings the text alone
        submission = await self._submit(message, incoming, decision.queue)
        if submission is not None and not submission.duplicate:
            self._reactor.show(message, submission)  # only now is it on disk

    async def say(
        self, command: Command, text: str, admission: Admission, *, untrusted: bool
    ) -> bool:
        """Take what a command says in the name of whoever gave it.

        Args:
            command: The command.
            text: What it says.
            admission: Where it is said.
            untrusted: Whether somebody else wrote that: a server, for one.

        Returns:
            Whether it is durable; if not, its sender was told.
        """
        message = Message(
            id=command.id, chat=command.chat, sender=command.sender, at=command.at, text=text
        )
        name = message_key(admission.key, command.id)
        is_untrusted = untrusted or admission.decision.untrusted
        incoming = self._incoming(message, admission, name, untrusted=is_untrusted)
        return await self._submit(message, incoming, admission.decision.queue) is not None

    def _incoming(
        self, message: Message, admission: Admission, name: str, *, untrusted: bool
    ) -> IncomingMessage:
        """Return a message without files as what its conversation takes, under a name."""
        return IncomingMessage(
            text=compose(message, in_group=message.chat.type != "dm"),
            key=admission.key,
            sender=message.sender.id,
            idempotency_key=name,
            untrusted=untrusted,
            queueing=queueing(admission.decision.queue, is_album=False, took_s=0),
        )

    async def react(
        self, message: Message, name: str, admission: Admission, *, is_turn: bool
    ) -> None:
        """Take what a reaction is told to the model as; return when it is durable, or refused.

        Args:
            message: That, with the id of the message that the reaction stands on.
            name: The reaction's own id.
            admission: What becomes of what its sender says.
            is_turn: Whether it is a turn of its own; else the next one is told of it.
        """
        decision, name = admission.decision, message_key(admission.key, name)
        incoming = self._incoming(message, admission, name, untrusted=decision.untrusted)
        if is_turn and decision.action == "answer":
            in_group = message.chat.type != "dm"
            incoming = replace(incoming, reply_to=message.id if in_group else "")
        else:
            incoming = replace(
                incoming,
                text=ambient_text(message),
                kind="ambient",
                queueing=Queueing(),
                ambient=ambient_rules(decision.buffer, "note"),
            )
        await self._submit(message, incoming, decision.queue)

    async def _submit(
        self, message: Message, incoming: IncomingMessage, queue: QueueRules
    ) -> Submission | None:
        """Hand in a message; None where it is not taken, and its sender was told where it helps."""
        fields = {**self._fields, "chat": message.chat.id, "message_id": message.id}
        is_for_us = incoming.kind == "prompt"
        if incoming.key is not None:
            self._taken[message.chat.id, message.id] = _Taken(
                incoming.key, incoming.idempotency_key, is_for_us=is_for_us
            )
        while len(self._taken) > DELETABLE_MAX:
            self._taken.popitem(last=False)  # it waits no longer
        try:
            try:
                return await self._context.service.submit(incoming)
            except ActorFailedError:  # its session starts afresh with the second try
                return await self._context.service.submit(incoming)
        except QueueFullError as error:
            logger.info("a message was dropped, too many wait", extra=fields)
            if error.overflow == "reject" and is_for_us:
                # `drop_new` drops in silence, as its owner wants it.
                self._word(message, queue_full(queue.reject_message))
        except BusyError:
            logger.info("a message was dropped, a turn runs", extra=fields)
            if is_for_us:
                self._word(message, busy())
        except InvalidInputError as error:
            logger.info("a message was refused", extra={**fields, "error": str(error)})
            if is_for_us:
                self._word(message, t("This was not taken: {reason}.", reason=str(error)))
        except UnusableModelError as error:
            logger.warning("a message was refused", extra={**fields, "error": str(error)})
            if is_for_us:
                self._word(message, sentence(str(error)))
        except UnknownAgentError as error:
            logger.warning("a message has no agent", extra={**fields, "error": str(error)})
            if is_for_us:
                self._word(message, NOT_AVAILABLE)
        except SessionQuarantinedError as error:
            logger.warning("a message was refused", extra={**fields, "error": str(error)})
            if is_for_us:
                self._word(message, FAILING)
        except (CorruptJournalError, UnknownFormatError) as error:
            log_damaged(incoming.key, error)
            if is_for_us:
                self._word(message, DAMAGED)
        return None

    # --- edits and deletions ---

    async def edit(self, edit: Edit) -> None:
        """Change a message whose turn has not begun; return when that is durable, or too late."""
        admission = await self._access.admit(edit.chat, edit.sender, is_addressed=edit.is_addressed)
        if admission is None or admission.decision.action not in {"answer", "ambient"}:
            return
        if not edit.text.strip() or self._access.is_flood(edit):
            return
        taken = self._taken.get((edit.chat.id, edit.id))
        if taken is None:
            taken = _Taken(admission.key, message_key(admission.key, edit.id), is_for_us=True)
        is_answered = edit.is_addressed and admission.decision.action == "answer"
        if is_answered and not taken.is_for_us:
            await self._take_named(edit, admission)
            return
        key = taken.name
        in_group = edit.chat.type != "dm"
        text = edit_text(edit, in_group=in_group)
        extras = self._extras.get(key)
        if extras is not None:
            text = compose(
                replace(extras.message, text=edit.text),
                in_group=in_group,
                texts=extras.texts,
                saved=extras.saved,
                refused=extras.refused,
            )
        fields = {**self._fields, "chat": edit.chat.id, "message_id": edit.id}
        try:
            is_changed = await self._context.service.conversations.edit(taken.key, key, text)
        except (CorruptJournalError, UnknownFormatError) as error:
            log_damaged(admission.key, error)
        except (InvalidInputError, UnknownAgentError, UnknownSessionError) as error:
            logger.info("an edit was refused", extra={**fields, "error": str(error)})
        else:
            if not is_changed:
                logger.debug("an edit came too late", extra=fields)

    async def _take_named(self, edit: Edit, admission: Admission) -> None:
        """Take a message that names the bot since it was changed: as one that is written now."""
        message = Message(
            id=edit.id, chat=edit.chat, sender=edit.sender, at=edit.at, text=edit.text
        )
        name = message_key(admission.key, f"{edit.id} named")
        untrusted = admission.decision.untrusted
        incoming = self._incoming(message, admission, name, untrusted=untrusted)
        in_group = edit.chat.type != "dm"
        incoming = replace(incoming, reply_to=edit.id if in_group else "")
        await self._submit(message, incoming, admission.decision.queue)

    async def delete(self, chat: str, message_id: str) -> None:
        """Take a message back whose turn has not begun; return when that is durable, or too late.

        One that came before the last start is answered all the same.
        """
        taken = self._taken.get((chat, message_id))
        if taken is None:
            return
        fields = {**self._fields, "chat": chat, "message_id": message_id}
        try:
            with anyio.fail_after(self._limits.take_s):
                conversations = self._context.service.conversations
                is_gone = await conversations.withdraw(taken.key, taken.name)
        except (CoreError, TimeoutError) as error:
            why = str(error) or "it took too long"
            logger.warning("a deletion could not be kept", extra={**fields, "error": why})
        else:
            if not is_gone:
                logger.debug("a deletion came too late", extra=fields)

    def _remember(self, key: str, extras: _Extras) -> None:
        """Keep what an edit needs, for the newest messages; large ones lose their files' text."""
        message = extras.message
        about = message.quoted or message.forwarded_from or message.described or message.unsupported
        if extras.texts or extras.saved or extras.refused or about:
            size = sum(len(text) for _, text in extras.texts)
            if size <= EXTRAS_CHARS:
                self._extras[key] = extras
                while len(self._extras) > EXTRAS_MAX:
                    self._extras.popitem(last=False)  # its message is older than anybody edits

    # --- words ---

    def _say(self, message: Message, text: str) -> None:
        reply_to = message.id if message.chat.type != "dm" else ""
        self._notifier.notify_soon(message.chat, text, reply_to=reply_to)

    def _word(self, message: Message, text: str) -> None:
        """Say a line about a message that is not taken, the same one not too often."""
        who = message.chat.id, message.sender.id, text
        if self._worded.may(who, self._context.clock.now()):
            self._say(message, text)
