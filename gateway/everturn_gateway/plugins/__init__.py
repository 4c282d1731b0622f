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
from everturn_gateway.plugins.channels import ChannelPlugin, ChannelSetup, PluginChannelSettings
from everturn_gateway.plugins.policies import PolicyPlugin, PolicySettings
from everturn_gateway.plugins.providers import (
    KeyedSettings,
    ProviderPlugin,
    ProviderSettings,
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
    StoreSettings,
    StoreSetup,
)
from everturn_gateway.plugins.tools import (
    PluginToolSettings,
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
    "ChannelSetup",
    "Group",
    "KeyedSettings",
    "OpenedStore",
    "Plugin",
    "PluginChannelSettings",
    "PluginFault",
    "PluginToolSettings",
    "PolicyPlugin",
    "PolicySettings",
    "ProviderPlugin",
    "ProviderSettings",
    "ProviderSetup",
    "Registry",
    "StoreNote",
    "StorePlugin",
    "StoreSettings",
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
