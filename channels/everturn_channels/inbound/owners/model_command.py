"""`/model` in a chat: shows which model answers, and lets the agent's owners choose another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from everturn_actors.errors import (
    ContextDoesNotFitError,
    InvalidInputError,
    SessionEndedError,
    UnknownSessionError,
    UnusableModelError,
)
from everturn_actors.model import ChosenModel, ConversationKey
from everturn_channels.access.owners import Owner, find_owner
from everturn_channels.adapter import Button, ButtonClick, Command, Person
from everturn_channels.channel_context import ChannelContext
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.languages import t
from everturn_channels.models import (
    BUTTON_PREFIX,
    DEFAULT,
    AgentModels,
    ModelChoice,
    model_chosen,
    model_set_for_agent,
    model_text,
    not_yours_to_choose,
    read_model_intent,
)
from everturn_channels.texts import sentence

BUTTONS_MAX = 8
_LABEL_CHARACTERS = 60


class ModelCommand:
    """Answers `/model` and its buttons on one channel."""

    def __init__(
        self, *, channel: str, context: ChannelContext, tasks: BackgroundTasks, notifier: Notifier
    ) -> None:
        self._channel, self._context = channel, context
        self._tasks, self._notifier = tasks, notifier

    async def answer(self, command: Command, key: ConversationKey) -> str:
        """Show which model answers, or choose one; return what the sender is told.

        Raises:
            CoreError: It cannot be done now.
        """
        owner = self._owner(command.sender, key.agent) if command.is_typed else None
        intent = read_model_intent(command.argument)
        models = await self._context.models(key.agent)
        if intent is None:
            chosen = await self._chosen(key)
            if owner is not None and models.others:
                self._offer(command, models, chosen)
            return model_text(models, chosen, may_choose=owner is not None)
        if owner is None:
            return not_yours_to_choose()
        try:
            model = await self._context.named_model(key.agent, intent.name) if intent.name else None
            if intent.scope == "agent":
                if model is None:
                    return t("Name the model that the agent is to have: /model NAME agent")
                await self._context.set_model(key.agent, model, owner.by)
                return model_set_for_agent(models.find(model), key.agent)
            return await self._choose(key, model, models, owner)
        except (InvalidInputError, UnusableModelError) as error:
            return sentence(str(error))

    async def click(self, click: ButtonClick, key: ConversationKey) -> str | None:
        """Choose the model of a button; return what is told. None = it is none of a model's."""
        if not click.data.startswith(BUTTON_PREFIX):
            return None
        owner = self._owner(click.sender, key.agent)
        if owner is None:
            return not_yours_to_choose()
        models = await self._context.models(key.agent)
        model = None
        if click.data != f"{BUTTON_PREFIX}{DEFAULT}":
            found = next((each for each in models.others if each.button == click.data), None)
            if found is None:
                return t("That model is not there any more; /model shows those that are.")
            model = found.model
        try:
            return await self._choose(key, model, models, owner)
        except (InvalidInputError, UnusableModelError) as error:
            return sentence(str(error))

    async def names(self, command: Command, agent: str) -> Sequence[str]:
        """Return what may follow the command while it is typed; nothing to who may not choose.

        Raises:
            UnknownAgentError: The agent is gone.
        """
        if self._owner(command.sender, agent) is None:
            return ()
        return [each.label for each in (await self._context.models(agent)).others]

    def _owner(self, sender: Person, agent: str) -> Owner | None:
        owner = find_owner(self._context.owners(), self._channel, sender)
        return owner if owner is not None and owner.owns(agent) else None

    async def _chosen(self, key: ConversationKey) -> ChosenModel | None:
        service = self._context.service
        session_id = await service.conversations.current(key)
        if not session_id:
            return None
        try:
            return (await service.view(session_id)).model
        except UnknownSessionError:
            return None

    async def _choose(
        self, key: ConversationKey, model: ChosenModel | None, models: AgentModels, owner: Owner
    ) -> str:
        """Choose a model for a conversation, which begins where there is none."""
        service = self._context.service
        session_id, _ = await service.conversations.open(key)
        try:
            used = (await service.reader.context_with(session_id, model)).percent
        except ContextDoesNotFitError as error:
            return t("That model has no room for this conversation: {reason}", reason=str(error))
        try:
            await service.conversations.choose_model(session_id, model, by=owner.by)
        except (SessionEndedError, UnknownSessionError):
            return t("This conversation ended just now. Please choose again.")
        return model_chosen(models.find(model), is_own=model is None, used_percent=used)

    def _offer(self, command: Command, models: AgentModels, chosen: ChosenModel | None) -> None:
        """Show the models as buttons below a line of their own, as soon as it may be."""
        buttons = buttons_of(models, chosen)
        text = t("Which model is to answer in this conversation?")
        show = partial(self._notifier.notify, command.chat, text, buttons=buttons)
        self._tasks.start("models to choose from", show)


def buttons_of(models: AgentModels, chosen: ChosenModel | None) -> tuple[Button, ...]:
    """Return a button for each model that may be chosen instead, the agent's own in front."""
    own = [] if chosen is None else [_button(models.own, f"{BUTTON_PREFIX}{DEFAULT}")]
    others: Sequence[ModelChoice] = [each for each in models.others if each.model != chosen]
    return (*own, *(_button(each, each.button) for each in others[: BUTTONS_MAX - len(own)]))


def _button(choice: ModelChoice, data: str) -> Button:
    return Button(label=choice.label[-_LABEL_CHARACTERS:], data=data)
