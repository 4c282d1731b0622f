"""The policy `native`: as `everturn`, and where the provider makes summaries of its own, by these.

What was said last is sent to the provider, which gives a block that stands for it: Anthropic a
summary that people can read, signed, and OpenAI an encrypted item, beside which it is asked for
a text. It is an event in the log, like any summary, and is sent back unchanged in the place of what
it stands for, to the same model at the same address. Any other model, such as a fallback, reads the
text. Where the provider gives none, a model writes the summary, as with `everturn`.

Source: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand and
/compaction-keep-recent-turns, https://developers.openai.com/api/docs/guides/compaction (read
2026-11-26).
"""

from __future__ import annotations

import dataclasses

from everturn_actors.context.policies import everturn

POLICY = dataclasses.replace(everturn.POLICY, name="native", compacts=True)
