"""Plug-ins: channels, model providers, tools, context policies and stores.

Each is described by one frozen value and found through an entry point; the built-in ones too.

- `base`: what all plug-ins have in common: one frozen value that says everything about them
- `channels`: the description of a channel: a platform on which people write
- `policies`: the description of a context policy
- `providers`: the description of a model provider
- `registry`: finds what is installed
- `stores`: the description of a store
- `tools`: the description of a tool, or of several that belong together
"""

from __future__ import annotations

from everturn_gateway.plugins.base import INTERFACE, Plugin, secret_fields
from everturn_gateway.plugins.channels import ChannelPlugin, ChannelSection, ChannelSetup
from everturn_gateway.plugins.policies import PolicyPlugin, PolicySection
from everturn_gateway.plugins.providers import (
    KeyedSection,
    ProviderPlugin,
    ProviderSection,
    ProviderSetup,
)
from everturn_gateway.plugins.registry import (
    Group,
    PluginFault,
    Registry,
    find_plugins,
    installed,
    log_left_out,
)
from everturn_gateway.plugins.stores import (
    OpenedStore,
    StoreNote,
    StorePlugin,
    StoreSection,
    StoreSetup,
)
from everturn_gateway.plugins.tools import (
    PluginToolSection,
    ToolEntry,
    ToolPlan,
    ToolPlugin,
    ToolRequest,
    ToolSettingsError,
    ToolSetup,
)

__all__ = [
    "INTERFACE",
    "ChannelPlugin",
    "ChannelSection",
    "ChannelSetup",
    "Group",
    "KeyedSection",
    "OpenedStore",
    "Plugin",
    "PluginFault",
    "PluginToolSection",
    "PolicyPlugin",
    "PolicySection",
    "ProviderPlugin",
    "ProviderSection",
    "ProviderSetup",
    "Registry",
    "StoreNote",
    "StorePlugin",
    "StoreSection",
    "StoreSetup",
    "ToolEntry",
    "ToolPlan",
    "ToolPlugin",
    "ToolRequest",
    "ToolSettingsError",
    "ToolSetup",
    "find_plugins",
    "installed",
    "log_left_out",
    "secret_fields",
]
