"""The tool by which an agent asks the people of the conversation something it has to know."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, model_validator

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import Inquiry, ToolCall, ToolDefinition
from everturn_actors.ports import InquiryToMake, ToolCapabilities, ToolContext
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments
from everturn_gateway.tools.places import NOBODY_ANSWERS

ASK_USER: Final = "ask_user"
CHOICES_MAX: Final = 10
CHOICE_CHARACTERS: Final = 60  # what the button of every platform shows
QUESTION_CHARACTERS: Final = 2_000

Choice = Annotated[str, Field(min_length=1, max_length=CHOICE_CHARACTERS, pattern=r"\S")]


class AskUser(Arguments):
    """What to ask."""

    question: Annotated[str, Field(min_length=1, max_length=QUESTION_CHARACTERS, pattern=r"\S")]
    choices: Annotated[tuple[Choice, ...], Field(max_length=CHOICES_MAX)] = Field(
        default=(), description="short answers to choose from; without any, a text is asked for"
    )
    free_text: bool = Field(
        default=False, description="whether another answer than a choice is taken"
    )
    default: Annotated[str, Field(max_length=QUESTION_CHARACTERS)] = Field(
        default="", description="what you will go on with if nobody answers in time"
    )

    @model_validator(mode="after")
    def _differ(self) -> AskUser:
        words = [" ".join(choice.split()).casefold() for choice in self.choices]
        if len({*words}) < len(words):
            msg = "choices: two are the same"
            raise ValueError(msg)
        return self


class AskUserTool:
    """Asks; implements `Tool` and `AsksPeople`."""

    capabilities = ToolCapabilities(read_only=True, safe=True, asks_people=True)

    def __init__(self, *, timeout_s: int, approvers: tuple[str, ...]) -> None:
        """Ask whom and for how long the agent's owner says; empty = those whom the turn answers."""
        self._timeout_s, self._approvers = timeout_s, approvers
        self.definition = ToolDefinition(
            name=ASK_USER,
            description=(
                "Ask the person you talk with, and wait for the answer. Use it where you cannot go"
                " on without, and for choices. It gives no permission to run other tools."
            ),
            parameters=parameters(AskUser),
        )

    def inquiry_of(self, call: ToolCall, context: ToolContext) -> InquiryToMake:
        """Return what the call asks.

        Raises:
            ToolFailedError: The arguments do not fit, or nobody is there.
        """
        asked = read_arguments(call, AskUser)
        if context.key.channel in NOBODY_ANSWERS:
            msg = (
                "nobody can be asked in this conversation; decide yourself, or report the question"
            )
            raise ToolFailedError(msg)
        return InquiryToMake(
            inquiry=Inquiry(
                text=asked.question.strip(),
                choices=tuple(" ".join(choice.split()) for choice in asked.choices),
                takes_text=asked.free_text or not asked.choices,
                default=asked.default.strip(),
            ),
            timeout_s=self._timeout_s,
            approvers=self._approvers,
        )

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Run nothing: the answer is the result.

        Raises:
            ToolFailedError: Always.
        """
        self.inquiry_of(call, context)
        msg = "a question is asked, not run"
        raise ToolFailedError(msg)
