"""Agent Skills: instructions that an agent reads when it needs them."""

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
