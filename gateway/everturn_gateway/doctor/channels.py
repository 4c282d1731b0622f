"""The status of channels, and what is wrong with how they are set up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import timedelta

from everturn_actors.errors import CoreError
from everturn_channels.errors import ClientError, SetupError
from everturn_channels.health import ChannelStatus
from everturn_gateway.channels import START_GRACE_S, move_notes, route_notes
from everturn_gateway.clock import SystemClock
from everturn_gateway.doctor.channel_words import channel_text
from everturn_gateway.doctor.findings import Finding, Verdict
from everturn_gateway.doctor.subject import Subject
from everturn_gateway.errors import GatewayError
from everturn_gateway.specs import AgentFile


async def channel_findings(
    subject: Subject, agents: Sequence[AgentFile]
) -> AsyncGenerator[Finding]:
    """Say the status of the channels, where a gateway runs; otherwise only that they are set up."""
    config, running = subject.config, subject.running
    for note in route_notes(config, [agent.spec.name for agent in agents]):
        yield Finding(verdict="problem", subject="channel", text=note)
    try:
        async with subject.keyed() as keyed:
            notes = await move_notes(config, keyed, agents)
        for note in notes:
            yield Finding(verdict="note", subject="channel", text=note)
    except (CoreError, GatewayError, SetupError) as error:
        yield Finding(verdict="problem", subject="channel", text=str(error))
    facts: Mapping[str, ChannelStatus] = {}
    try:
        if running is not None and config.channels:
            statuses = await running.channels()
            facts = {status.name: status for status in statuses}
    except (CoreError, ClientError) as error:
        yield Finding(verdict="problem", subject="channel", text=str(error))
        return
    for channel in config.channels:
        fact = facts.get(channel.name)
        if running is None:
            text = f"{channel.name}: set up; `everturn channel check` logs in and looks"
            yield Finding(verdict="note", subject="channel", text=text)
        elif fact is None:
            text = f"{channel.name}: the running gateway does not know it; start it anew"
            yield Finding(verdict="problem", subject="channel", text=text)
        else:
            text = f"{channel.name}: {channel_text(fact)}"
            yield Finding(verdict=_verdict(fact), subject="channel", text=text)


def _verdict(status: ChannelStatus) -> Verdict:
    """Return what to think of a channel; one that was just started has yet to be heard from."""
    if status.is_healthy:
        return "problem" if status.blocked else "note" if status.unreadable else "ok"
    age = SystemClock().now() - status.since
    is_early = not status.error and not status.last_received_at
    return "note" if is_early and age < timedelta(seconds=START_GRACE_S) else "problem"
