"""Reads the three tiers of a policy from their files, and puts them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.late_loading import late
from everturn_gateway.tools.policy.policy import (
    Delivery,
    LogDelivery,
    Notify,
    Policy,
    WebhookDelivery,
)
from everturn_gateway.yaml_files import check, read_document

if TYPE_CHECKING:
    from everturn_gateway.tools.policy.policy_files import schema
    from everturn_gateway.tools.policy.policy_files.schema import (
        DeliverySettings,
        NotifySettings,
        PolicyDocument,
    )
else:
    schema = late("everturn_gateway.tools.policy.policy_files.schema")

POLICY_FILE: Final = "policy.yaml"
LOCAL_FILE: Final = "policy.local.yaml"

T = TypeVar("T")


def load_policy(state: Path | None, home: Path, environ: Mapping[str, str]) -> Policy:
    """Return the policy of the agent in `home`, in the workspace `state`.

    The tiers are `policy.yaml` of the workspace, `policy.yaml` of the agent, and its
    `policy.local.yaml`, which holds what people allowed for good. Lists add up; of every other
    field the most specific tier that sets it counts. Files that are not there say nothing.

    Reads files: not for the event loop.

    Args:
        state: The gateway's workspace; None = there is none.
        home: The agent's folder.
        environ: The environment variables, for `${NAME}` in the files.

    Raises:
        ConfigError: With every fault of all the files.
    """
    tiers: list[PolicyDocument] = []
    faults: list[Fault] = []
    shared = () if state is None else (state / POLICY_FILE,)
    for file in (*shared, home / POLICY_FILE, home / LOCAL_FILE):
        try:
            if not _is_there(file):
                continue
            tier, found = check(read_document(file, environ), schema.PolicyDocument)
        except ConfigError as error:
            faults += error.faults
            continue
        faults += found
        if tier is not None:
            tiers.append(tier)
    if faults:
        raise ConfigError(faults=faults)
    return _merged(tiers) if tiers else Policy()


def _is_there(file: Path) -> bool:
    """Return whether there is such a file, or something in its place that cannot be read.

    A link that leads nowhere is there, and so is what a closed folder may hold: neither may count
    as a policy that forbids nothing.
    """
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise ConfigError(faults=[Fault(file=file, message=message)]) from None
    return True


def _merged(tiers: list[PolicyDocument]) -> Policy:
    return Policy(
        deny=schema.patterns_of(_together(tier.deny for tier in tiers)),
        allow=schema.patterns_of(_together(tier.allow for tier in tiers)),
        reads=schema.patterns_of(_together(tier.reads for tier in tiers)),
        notify=_notify([tier.notify for tier in tiers if tier.notify is not None]),
        **{name: value for tier in tiers for name, value in _settings(tier)},
    )


def _settings(tier: PolicyDocument) -> Iterable[tuple[str, Any]]:
    """Yield what a tier sets, under the names that `Policy` has for it."""
    for name, own in (
        ("mode", "mode"),
        ("approvers", "approvers"),
        ("approval_timeout_seconds", "approval_timeout_s"),
        ("after_untrusted", "after_untrusted"),
    ):
        if name in tier.model_fields_set:
            yield own, getattr(tier, name)


def _notify(tiers: list[NotifySettings]) -> Notify | None:
    if not any(tier.is_on for tier in tiers):
        return None
    deliveries = _together(tuple(map(_delivery, tier.deliveries)) for tier in tiers)
    return Notify(
        patterns=schema.patterns_of(_together(tier.patterns for tier in tiers)),
        deliveries=tuple(dict.fromkeys(deliveries)) or (LogDelivery(),),
    )


def _delivery(section: DeliverySettings) -> Delivery:
    return (
        LogDelivery() if isinstance(section, schema.LogSettings) else WebhookDelivery(section.url)
    )


def _together(lists: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(item for each in lists for item in each)
