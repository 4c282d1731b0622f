"""Slack's names of emojis: it takes no emoji for a reaction, only what it calls one. Pure."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r":?([a-z0-9_+'-]{1,100}(?:::skin-tone-[2-6])?):?")
_VARIANT: Final = "\ufe0f"  # asks for an emoji in colour
NAMES: Final = {
    "👀": "eyes",
    "👍": "+1",
    "👎": "-1",
    "👌": "ok_hand",
    "👋": "wave",
    "🙏": "pray",
    "🤔": "thinking_face",
    "🤖": "robot_face",
    "✅": "white_check_mark",
    "✔": "heavy_check_mark",
    "☑": "ballot_box_with_check",
    "❌": "x",
    "❎": "negative_squared_cross_mark",
    "⛔": "no_entry",
    "🚫": "no_entry_sign",
    "⚠": "warning",
    "❗": "exclamation",
    "❓": "question",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "⏰": "alarm_clock",
    "🕐": "clock1",
    "🔄": "arrows_counterclockwise",
    "⚙": "gear",
    "🔧": "wrench",
    "🔥": "fire",
    "💡": "bulb",
    "💬": "speech_balloon",
    "💭": "thought_balloon",
    "📝": "memo",
    "✍": "writing_hand",
    "🎉": "tada",
    "🚀": "rocket",
    "⭐": "star",
    "❤": "heart",
    "💯": "100",
    "😀": "grinning",
    "😊": "blush",
    "😢": "cry",
    "🔴": "red_circle",
    "🟢": "large_green_circle",
    "🟡": "large_yellow_circle",
}
"Those that stand for a state of things; any other one is given by its name."

_ALIASES: Final = {"thumbsup": "👍", "thumbsdown": "👎", "repeat": "🔁", "keycap_ten": "🔟"}
_DIGITS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_EMOJIS: Final = (
    {name: emoji for emoji, name in NAMES.items()}
    | _ALIASES
    | {name: f"{n}\u20e3" for n, name in enumerate(_DIGITS, 1)}
)


def emoji_of(name: str) -> str:
    """Return the emoji of a name of Slack's; the name between colons where it is not known.

    >>> emoji_of("+1::skin-tone-3"), emoji_of("party-parrot")
    ('👍', ':party-parrot:')
    """
    bare = name.partition("::")[0]
    return _EMOJIS.get(bare, f":{bare}:")


def name_of(emoji: str) -> str:
    """Return what Slack calls an emoji; empty where that is not known.

    >>> name_of("👀"), name_of(":eyes:"), name_of("✔️"), name_of("🦑")
    ('eyes', 'eyes', 'heavy_check_mark', '')
    """
    if found := _NAME.fullmatch(emoji.strip()):
        return found[1]
    return NAMES.get(emoji.strip().replace(_VARIANT, ""), "")
