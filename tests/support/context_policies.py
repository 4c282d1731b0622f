"""The context policies that come with Everturn."""

from __future__ import annotations

from typing import Any, Final

from everturn_actors.context.policy import Policy
from everturn_gateway.plugins import installed

POLICIES: Final[dict[str, Policy[Any]]] = {
    plugin.name: plugin.policy
    for plugin in installed().policies.all()
    if installed().policies.is_own(plugin.name)
}
"By name, in the order in which people are shown them."
