"""What chat pages ask a model for themselves: titles, tags, what to ask next. Pure.

Such a request is no message of a person. It is known by its whole template, from its first words
to its last, in a request that holds nothing else; who only writes about titles is not meant.

Source: Open WebUI 0.12, `open_webui/config.py` and `utils/context_compaction.py`; LibreChat's
`@librechat/agents`, `src/utils/title.ts` (read 2026-11).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from everturn_gateway.http.openai.request import ChatRequest


class _Template(Struct, frozen=True):
    """The fixed texts of a template, in their order; what stands between them changes."""

    begins: tuple[str, ...]
    "One of them begins it."
    has: tuple[str, ...]
    ends: str = ""

    def fits(self, text: str) -> bool:
        """Whether a text was made of it."""
        place = next((len(each) for each in self.begins if text.startswith(each)), -1)
        for each in self.has:
            found = text.find(each, place) if place >= 0 else -1
            place = found + len(each) if found >= 0 else -1
        # A template of some versions ends with a quotation mark that belongs to nothing.
        return place >= 0 and text[place:].rstrip(' \n"').endswith(self.ends)


_TASK: Final = "### Task:\n"
_TEMPLATES: Final = (
    # Open WebUI: title, tags, follow-ups, search queries, the prompt of an image.
    _Template(
        begins=tuple(
            _TASK + each
            for each in (
                "Generate a concise",
                "Generate 1-3 broad tags",
                "Predict 3-5 useful messages",
                "Suggest 3-5 relevant follow-up",
                "Analyze the chat history to determine the necessity of generating search",
                "Generate a detailed prompt for",
            )
        ),
        has=("### Guidelines:\n", "### Output:\n", "<chat_history>\n"),
        ends="</chat_history>",
    ),
    _Template(
        begins=(_TASK + "You are an autocompletion system.",),
        has=("### **Output Rules**:\n", "<chat_history>\n", "</chat_history>\n<type>"),
        ends="#### Output:",
    ),
    _Template(
        begins=(_TASK + "Summarize the conversation history that will be compacted",),
        has=("### Previous Summary:\n", "### Messages Being Compacted:\n", "### Recent Messages"),
    ),
    _Template(
        begins=("Your task is to reflect the speaker's likely facial expression",),
        has=("emoji", "\n\nMessage: ```"),
        ends="```",
    ),
    # LibreChat: the title, as text and as structured output.
    _Template(
        begins=("Provide a concise, 5-word-or-less title for the conversation, using",),
        has=("return the title itself", "\n\nConversation:\n"),
    ),
    _Template(
        begins=("Analyze this conversation and provide:\n1. The detected language",),
        has=("\n2. A concise title in the detected language (5 words or less", "\n\n"),
    ),
)


def is_side_request(request: ChatRequest) -> bool:
    """Whether a chat page asks for something of its own, and nobody in the chat does.

    It has one message of a user, and none of an assistant.
    """
    said = [each for each in request.messages if each.role not in {"system", "developer"}]
    if len(said) != 1 or said[0].role != "user":
        return False
    content = said[0].content
    if isinstance(content, list):
        if len(content) != 1:
            return False
        content = content[0].get("text")
    if not isinstance(content, str):
        return False
    text = content.strip()
    return any(each.fits(text) for each in _TEMPLATES)
