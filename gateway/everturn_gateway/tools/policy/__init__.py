"""The tool policy: which calls run, which need a person, and what stands around every call.

`load_policy` reads it, `PolicyGate` judges by it, `GuardedTool` stands around each tool, and
`open_notifier` runs what tells people of calls.
"""

from __future__ import annotations

from everturn_gateway.tools.policy.advice import notes_on
from everturn_gateway.tools.policy.descriptions import AllowedWords, DescriptionGate
from everturn_gateway.tools.policy.files.protected_files import PROTECTED
from everturn_gateway.tools.policy.gate import PolicyGate
from everturn_gateway.tools.policy.guarding import CallWatch, GuardedTool
from everturn_gateway.tools.policy.held_files import HeldFiles
from everturn_gateway.tools.policy.hooks import AfterTool, DependsOn, Guard, SkipDuplicate
from everturn_gateway.tools.policy.judged_writes import JudgedWrites
from everturn_gateway.tools.policy.notifying import Notifier, ToolNotice, open_notifier
from everturn_gateway.tools.policy.policy import (
    LogDelivery,
    Mode,
    Notify,
    Policy,
    WebhookDelivery,
)
from everturn_gateway.tools.policy.policy_files.loading import LOCAL_FILE, POLICY_FILE, load_policy
from everturn_gateway.tools.policy.policy_files.schema import PolicyDocument
from everturn_gateway.tools.policy.policy_files.writing import PolicyWriteError
from everturn_gateway.tools.policy.rules.patterns import (
    Pattern,
    PatternError,
    exact_pattern,
    read_pattern,
)
from everturn_gateway.tools.policy.subjects import NamedForPolicy

__all__ = [
    "LOCAL_FILE",
    "POLICY_FILE",
    "PROTECTED",
    "AfterTool",
    "AllowedWords",
    "CallWatch",
    "DependsOn",
    "DescriptionGate",
    "Guard",
    "GuardedTool",
    "HeldFiles",
    "JudgedWrites",
    "LogDelivery",
    "Mode",
    "NamedForPolicy",
    "Notifier",
    "Notify",
    "Pattern",
    "PatternError",
    "Policy",
    "PolicyDocument",
    "PolicyGate",
    "PolicyWriteError",
    "SkipDuplicate",
    "ToolNotice",
    "WebhookDelivery",
    "exact_pattern",
    "load_policy",
    "notes_on",
    "open_notifier",
    "read_pattern",
]
