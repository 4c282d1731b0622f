"""What a gateway says that it took back, in words for people."""

from __future__ import annotations

from everturn_channels.names import visible
from everturn_gateway.client.answers import Json


def undone_text(data: Json) -> str:
    """Return what was taken back, a line for each file.

    Raises:
        KeyError, TypeError: It is no such answer.
    """
    checkpoint = data["checkpoint"]
    lines = [f"taken back: turn {checkpoint['turn_id']} of session {checkpoint['session_id']}"]
    lines += [f"  as before: {visible(path)}" for path in data["restored"]]
    lines += [
        f"  left: {visible(each['path'])}: {visible(each['reason'])}" for each in data["left"]
    ]
    if checkpoint["not_kept"]:
        lines.append(f"  {checkpoint['not_kept']:,} more files were changed, and are not kept")
    return "\n".join(lines)
