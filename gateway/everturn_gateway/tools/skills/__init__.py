"""Agent Skills: instructions that an agent reads when it needs them.

- `front_matter`: the front matter of a SKILL.md: YAML between two lines of `---`
- `grants`: which calls a skill's `allowed-tools` allow, as patterns of the tool policy
- `loading`: agent Skills: folders with a SKILL.md, of which the prompt names each, and a tool reads
  one
- `tools`: the skill tool: reads the instructions of a skill, and the files beside them
"""

from __future__ import annotations

from everturn_gateway.tools.skills.loading import Skill, load_skills, skills_index
from everturn_gateway.tools.skills.tools import granted_patterns, instructions_of, skill_tools

__all__ = [
    "Skill",
    "granted_patterns",
    "instructions_of",
    "load_skills",
    "skill_tools",
    "skills_index",
]
