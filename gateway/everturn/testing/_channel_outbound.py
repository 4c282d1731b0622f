"""What the contract suite for channels tries of what is sent, and of what a platform refuses."""

from __future__ import annotations

import re
from typing import Final

import pytest

from everturn.testing._channel_inbound import ServedPlatform, serve_on
from everturn.testing._inbound import RecordingHandler
from everturn.testing._running import in_loop
from everturn_channels.adapter import Adapter, Edit, Message, Outbound, OutgoingFile, Reaction
from everturn_channels.errors import (
    FileTooLargeError,
    NotSentError,
    RefusedError,
    SetupError,
    UnknownOutcomeError,
)

SILENCE_S: Final = 60.0  # longer than a library waits by itself
_FILE: Final = b"%PDF of ours, \x00\xff"
_PDF: Final = "application/pdf"
_WORDS: Final = 400


class SendingContract(ServedPlatform):
    """Long texts, repeats, changes, files, and what goes wrong between the two sides."""

    def outbound(self, channel: Adapter, text: str, *, is_repeat: bool = False) -> Outbound:
        """Return a message as it is pending: the same text has the same nonce."""
        (payload,) = channel.render(text, is_plain=True)
        nonce = re.sub(r"\W", "-", text)[:25]
        return Outbound(chat_id=self.chat_id, payload=payload, nonce=nonce, is_repeat=is_repeat)

    @in_loop
    async def test_a_long_reply_with_formatting_is_shown_whole(self) -> None:
        """Each piece is taken by the platform, and no word of it is lost."""
        words = [f"w{number}" for number in range(_WORDS)]
        parts = [
            f"## Part {number}\n\n- **{word}** and `code`\n\n```py\nprint('{word}')\n```\n"
            for number, word in enumerate(words)
        ]
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            payloads = channel.render("\n".join(parts))
            for number, payload in enumerate(payloads):
                nonce = f"long-{number}"
                await channel.send(Outbound(chat_id=self.chat_id, payload=payload, nonce=nonce))
            shown = list(await self.shown())

        # An empty payload is an error on most platforms.
        assert shown
        assert all(text.strip() for text in shown)
        assert set(re.findall(r"\bw\d+\b", "\n".join(shown))) == set(words)
        rendered = re.findall(r"\bw\d+\b", "\n".join(map(self.text_of, payloads)))
        assert list(dict.fromkeys(rendered)) == words

    @in_loop
    async def test_what_may_be_there_already_is_there_once_or_says_so(self) -> None:
        """A process that is killed between sending and noting it sends again after its start."""
        handler = RecordingHandler()
        async with self.open_platform():
            first = self.make_channel()
            async with serve_on(first, handler, self.until_ready):
                await first.send(self.outbound(first, "said once"))
            second, after = self.make_channel(), RecordingHandler(cursors=handler.cursors)
            async with serve_on(second, after, self.until_ready):
                await second.send(self.outbound(second, "said once", is_repeat=True))
                shown = list(await self.shown())
            is_known = second.capabilities.nonces

        self._is_once_or_says_so(shown, is_known=is_known)

    @in_loop
    async def test_a_lost_answer_is_of_unknown_outcome_and_its_repeat_is_known(self) -> None:
        """Neither the channel nor its library may try again by themselves."""
        self.need("lose_answer")
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            await self.lose_answer()
            with pytest.raises(UnknownOutcomeError):
                await channel.send(self.outbound(channel, "said once"))
            before = list(await self.shown())
            await channel.send(self.outbound(channel, "said once", is_repeat=True))
            shown = list(await self.shown())

        assert len(before) == 1
        self._is_once_or_says_so(shown, is_known=channel.capabilities.nonces)

    def _is_once_or_says_so(self, shown: list[str], *, is_known: bool) -> None:
        assert 1 <= len(shown) <= (1 if is_known else 2)
        assert len(set(shown)) == len(shown)  # a repeat says that it may be one
        assert all("said once" in text for text in shown)

    @in_loop
    async def test_a_platform_that_wants_silence_was_told_nothing(self) -> None:
        """It is tried again by whoever owes it."""
        self.need("slow_down")
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            await self.slow_down(SILENCE_S)
            with pytest.raises(NotSentError):
                await channel.send(self.outbound(channel, "too soon"))

            assert list(await self.shown()) == []

    @in_loop
    async def test_a_chat_that_the_bot_was_removed_from_is_gone(self) -> None:
        """Nothing else is sent there, and nobody tries for a day."""
        self.need("expel")
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            await self.expel()
            with pytest.raises(RefusedError) as raised:
                await channel.send(self.outbound(channel, "are you there?"))

        assert raised.value.is_chat_gone

    @in_loop
    async def test_a_token_that_was_taken_back_needs_its_owner(self) -> None:
        """To try again soon would help nobody."""
        self.need("revoke")
        async with self.open_platform():
            channel = self.make_channel()
            await self.revoke()
            with pytest.raises(SetupError):
                await channel.serve(RecordingHandler())

    @in_loop
    async def test_a_message_of_the_bot_can_be_changed(self) -> None:
        """The same change twice does no harm: it is made again after a crash."""
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            if not channel.capabilities.edits:
                pytest.skip("the platform cannot change messages")
            name = await channel.send(self.outbound(channel, "before"))
            (payload,) = channel.render("afterwards", is_plain=True)
            for _ in range(2):
                await channel.edit(self.chat_id, "", name, payload)
            (shown,) = await self.shown()

        assert shown == "afterwards"

    async def _written(self, text: str, handler: RecordingHandler) -> Message:
        """Write the first message that a handler gets, and return it as it came."""
        await self.write(text, self.chat_id)
        (message,) = await handler.until_handled(1)
        assert isinstance(message, Message)
        return message

    @in_loop
    async def test_a_reaction_on_what_the_bot_said_names_it(self) -> None:
        """It answers a question, or the model is told of it; later, where nobody listened."""
        self.need("react")
        handler = RecordingHandler()
        async with self.open_platform():
            channel = self.make_channel()
            async with serve_on(channel, handler, self.until_ready):
                name = await channel.send(self.outbound(channel, "look"))
                await self.react(name, "👍")
                await self.write("after it", self.chat_id)
                await handler.until(lambda: len(handler.events) > 1 and handler.texts())
                await self.until_confirmed(handler)
            if self.keeps_reactions and self.keeps_messages:
                await self.react(name, "🔥")
                later = RecordingHandler(cursors=handler.cursors)
                async with serve_on(self.make_channel(), later, self.until_ready):
                    await later.until(lambda: _reactions(later))
                    assert [(e.message_id, e.emoji) for e in _reactions(later)] == [(name, "🔥")]

        (reaction,) = _reactions(handler)
        assert (reaction.message_id, reaction.emoji) == (name, "👍")
        assert (reaction.chat.id, bool(reaction.sender.id)) == (self.chat_id, True)

    @in_loop
    async def test_files_of_one_message_are_one_message(self) -> None:
        """Each of them whole, in their order, and one kill away from being sent again together."""
        self.need("files")
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            count = channel.capabilities.files_at_once
            if count < 2:
                pytest.skip("the platform takes one file at a time")
            files = [
                OutgoingFile(data=_FILE + bytes([n]), file_name=f"{n}.pdf", media_type=_PDF)
                for n in range(count)
            ]
            album = Outbound(chat_id=self.chat_id, file=files[0], more_files=tuple(files[1:]))
            name = await channel.send(album)
            sent = list(await self.files())

        assert name
        assert sent == [each.data for each in files]

    @in_loop
    async def test_a_change_of_what_somebody_wrote_names_the_message(self) -> None:
        """A message whose turn has not begun takes the new text."""
        self.need("change")
        handler = RecordingHandler()
        async with self.serving(handler):
            message = await self._written("befor", handler)
            await self.change(message.id, "before")
            await handler.until_handled(2)

        edit = handler.events[1]
        assert isinstance(edit, Edit)
        assert (edit.id, edit.text, edit.sender.id) == (message.id, "before", message.sender.id)

    @in_loop
    async def test_a_deletion_of_what_somebody_wrote_names_the_message(self) -> None:
        """What is deleted while it waits is answered by nobody."""
        self.need("remove")
        handler = RecordingHandler()
        async with self.serving(handler):
            message = await self._written("never mind", handler)
            await self.remove(message.id)
            await handler.until(lambda: handler.deletions)

        assert handler.deletions == [(self.chat_id, message.id)]

    @in_loop
    async def test_files_go_both_ways(self) -> None:
        """Whole, under their names, and never more of one than is wanted."""
        self.need("write_file")
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            gate = handler.hold(self.chat_id)  # files are fetched before a message is taken
            await self.write_file("plan.pdf", _FILE, self.chat_id)
            await handler.until(lambda: handler.waiting)
            (message,) = handler.waiting
            assert isinstance(message, Message)
            (file,) = message.files
            data = await file.fetch(len(_FILE))
            with pytest.raises(FileTooLargeError):
                await file.fetch(len(_FILE) - 1)
            gate.set()
            if channel.capabilities.files_max_bytes:
                sent = OutgoingFile(data=_FILE, file_name="a.pdf", media_type="application/pdf")
                await channel.send(Outbound(chat_id=self.chat_id, file=sent, nonce="file"))
                assert list(await self.files()) == [_FILE]

        assert (data, file.file_name) == (_FILE, "plan.pdf")


def _reactions(handler: RecordingHandler) -> list[Reaction]:
    return [each for each in handler.events if isinstance(each, Reaction)]
