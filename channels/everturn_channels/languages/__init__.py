"""Texts for people in their language: one file of them for each language but English.

English stands in the code, and is the key: `t("Log out")`. The console reads the same files.
"""

from __future__ import annotations

from everturn_channels.languages.speaking import marked, ready, said, speaking, t
from everturn_channels.languages.texts import (
    ENGLISH,
    FOLDER,
    LANGUAGES,
    Language,
    Texts,
    language_of,
    texts_in,
)

__all__ = [
    "ENGLISH",
    "FOLDER",
    "LANGUAGES",
    "Language",
    "Texts",
    "language_of",
    "marked",
    "ready",
    "said",
    "speaking",
    "t",
    "texts_in",
]
