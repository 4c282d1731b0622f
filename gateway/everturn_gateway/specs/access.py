"""From `spec.access` to the rules that the channels follow. Pure."""

from __future__ import annotations

from everturn_channels.settings import AccessRules, BufferRules, DmRules, GroupRules, QueueRules
from everturn_gateway.specs.sections.access import (
    AccessSection,
    ContextBufferSection,
    GroupsSection,
    QueueSection,
)


def access_rules(section: AccessSection) -> AccessRules:
    """Return who may talk to an agent, and how."""
    dm = DmRules(
        policy=section.dm.policy,
        allowlist=section.dm.allowlist,
        queue=_queue(section.dm.queue),
    )
    return AccessRules(dm=dm, groups=_groups(section.groups))


def _groups(section: GroupsSection) -> GroupRules:
    return GroupRules(
        policy=section.policy,
        allowlist=section.allowlist,
        sender_default=section.sender_default,
        sender_overrides=tuple(section.sender_overrides.items()),
        activation=section.activation,
        context_buffer=_buffer(section.context_buffer),
        queue=_queue(section.queue),
    )


def _buffer(section: ContextBufferSection) -> BufferRules:
    return BufferRules(
        mode=section.mode,
        max_messages=section.max_messages,
        max_age_s=section.max_age_hours * 3600,
    )


def _queue(section: QueueSection) -> QueueRules:
    debounce = section.debounce
    return QueueRules(
        mode=section.mode,
        max_pending=section.max_pending,
        overflow=section.overflow,
        reject_message=section.reject_message or "",
        debounce_s=debounce.window_ms / 1000 if debounce.enabled else 0,
    )
