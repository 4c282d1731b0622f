"""The tool policy: which calls run, which need a person, and what stands around every call.

`load_policy` reads it, `PolicyGate` judges by it, `GuardedTool` stands around each tool, and
`open_notifier` runs what tells people of calls.

- `advice`: what to tell an agent's owner of patterns that cannot allow what they seem to
- `binding`: binds a question to the files of the workspace that the call names
- `command_state`: what a command line would meet in the workspace: what of it can run, write and
  name
- `descriptions`: tools of MCP servers whose words changed after somebody allowed them: asked about
  anew
- `gate`: decides which calls of an agent run, which need a person, and which are refused
- `guarding`: what stands around every tool: clean results, a fence around outside text, notes and
  notices
- `held_files`: files that a call may run which waits for a person, or runs: others ask before they
  write them
- `hooks`: guards that refuse a call, and notes that go with a result
- `judged_writes`: which file a call was judged for, between the gate that judged it and the tool
  that writes
- `late_gate`: the gate of an agent, made with the first call that it is asked about
- `notifying`: tells people of calls: a line in the log at once, webhooks one by one beside the work
- `policy`: a tool policy as values: what it denies, allows and tells of
- `subjects`: what a policy judges: one call, under the names that patterns may have for it
- `webhook_client`: posts notices to webhooks, over HTTP
- `commands/`: command lines: which commands they run, as far as that can be known before they do
- `files/`: the files of a workspace that a call names, or that others run
- `outside/`: text from outside: cleaned, fenced, and what of it a request shows
- `policy_files/`: `policy.yaml`: read, checked, and added to
- `rules/`: patterns, and what they say of a call
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everturn_gateway.late_loading import late_names

if TYPE_CHECKING:
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
    from everturn_gateway.tools.policy.policy_files.loading import (
        LOCAL_FILE,
        POLICY_FILE,
        load_policy,
    )
    from everturn_gateway.tools.policy.policy_files.schema import PolicyDocument
    from everturn_gateway.tools.policy.policy_files.writing import PolicyWriteError
    from everturn_gateway.tools.policy.rules.patterns import (
        Pattern,
        PatternError,
        exact_pattern,
        read_pattern,
    )
    from everturn_gateway.tools.policy.subjects import NamedForPolicy
else:
    __getattr__ = late_names(
        __name__,
        {
            "notes_on": "advice",
            "AllowedWords": "descriptions",
            "DescriptionGate": "descriptions",
            "PROTECTED": "files.protected_files",
            "PolicyGate": "gate",
            "CallWatch": "guarding",
            "GuardedTool": "guarding",
            "HeldFiles": "held_files",
            "AfterTool": "hooks",
            "DependsOn": "hooks",
            "Guard": "hooks",
            "SkipDuplicate": "hooks",
            "JudgedWrites": "judged_writes",
            "Notifier": "notifying",
            "ToolNotice": "notifying",
            "open_notifier": "notifying",
            "LogDelivery": "policy",
            "Mode": "policy",
            "Notify": "policy",
            "Policy": "policy",
            "WebhookDelivery": "policy",
            "LOCAL_FILE": "policy_files.loading",
            "POLICY_FILE": "policy_files.loading",
            "load_policy": "policy_files.loading",
            "PolicyDocument": "policy_files.schema",
            "PolicyWriteError": "policy_files.writing",
            "Pattern": "rules.patterns",
            "PatternError": "rules.patterns",
            "exact_pattern": "rules.patterns",
            "read_pattern": "rules.patterns",
            "NamedForPolicy": "subjects",
        },
    )

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
