"""What platforms tell, good as it is: what tests make bad events of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from support.discord_world import Payload, World
from support.telegram_api import TelegramApi

# --- Telegram ---

API: Final = TelegramApi()
RAY: Final = {"id": 1002, "is_bot": False, "first_name": "Bob", "last_name": "Ray"}
PHOTO: Final = [{"file_id": "f", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 99}]
DOCUMENT: Final = {"file_id": "f", "file_unique_id": "u", "file_name": "a/b.txt", "file_size": 1}
SAID: Final = API.message("@everturn_bot hello https://e.org", chat=-100)
LINKED: Final = API.message("a \U0001f600 link") | {
    "entities": [{"type": "text_link", "offset": 2, "length": 7, "url": "https://e.org"}]
}
TELEGRAM_UPDATES: Final[tuple[dict[str, Any], ...]] = (
    {"message": SAID},
    {"message": LINKED},
    {"edited_message": SAID | {"edit_date": 1_795_348_900}},
    {"message": API.message("/status now", chat=-100)},
    {
        "message": API.message(
            "so?", reply_to_message=SAID | {"from": RAY}, quote={"text": "hello", "position": 14}
        )
    },
    {"message": API.message("", photo=PHOTO, caption="look", media_group_id="7")},
    {"message": API.message("", document=DOCUMENT)},
    {"message": API.message("", location={"latitude": 1.0, "longitude": 2.0})},
    {"message": API.message("hi", forward_origin={"type": "user", "date": 5, "sender_user": RAY})},
    {"message": API.message("hi", is_topic_message=True, message_thread_id=9)},
    {"channel_post": API.message("news") | {"chat": {"id": -7, "type": "channel", "title": "T"}}},
    {
        "callback_query": {
            "id": "1",
            "from": RAY,
            "message": SAID,
            "chat_instance": "1",
            "data": "approve",
        }
    },
    {
        "my_chat_member": {
            "chat": SAID["chat"],
            "from": RAY,
            "date": 5,
            "old_chat_member": {"status": "member", "user": RAY},
            "new_chat_member": {"status": "left", "user": RAY},
        }
    },
)


# --- Discord ---

WORLD: Final = World(datetime(2026, 11, 22, 12, tzinfo=UTC))
BOB: Final = WORLD.add_user("bob")
FIRST: Final = WORLD.add_message(BOB, WORLD.general, "first")
SNAPSHOT: Final = {
    "type": 0,
    "content": "passed on",
    "embeds": [],
    "attachments": [{"id": "1", "filename": "a.txt", "size": 1, "url": "", "proxy_url": ""}],
    "timestamp": WORLD.now.isoformat(),
    "edited_timestamp": None,
    "flags": 0,
    "mentions": [],
    "mention_roles": [],
}
SEEN: Final = {"channel_id": WORLD.general, "message_id": FIRST["id"]}
DISCORD_MESSAGES: Final[tuple[Payload, ...]] = (
    WORLD.add_message(BOB, WORLD.general, f"<@{WORLD.bot['id']}> ask <#{WORLD.general}> <:x:1>"),
    WORLD.add_message(BOB, WORLD.general, "/status", attachments=SNAPSHOT["attachments"]),
    WORLD.add_message(
        BOB, WORLD.general, "so?", type=19, message_reference=SEEN, referenced_message=FIRST
    ),
    WORLD.add_message(
        BOB,
        WORLD.general,
        "",
        message_reference={**SEEN, "type": 1},
        message_snapshots=[{"message": SNAPSHOT}],
        sticker_items=[{"id": "5", "name": "wave", "format_type": 1}],
    ),
)
MEMBER: Final = WORLD.member(BOB)
DISCORD_USES: Final[tuple[Payload, ...]] = tuple(
    {
        "id": WORLD.new_id(),
        "application_id": WORLD.bot["id"],
        "type": kind,
        "token": "t",
        "version": 1,
        "guild_id": WORLD.guild_id,
        "channel_id": WORLD.general,
        "channel": WORLD.channels[WORLD.general],
        "member": MEMBER,
        "locale": "en-US",
        "entitlements": [],
        "authorizing_integration_owners": {},
        "attachment_size_limit": 1,
        "data": data,
    }
    for kind, data in (
        (
            2,
            {
                "id": "1",
                "name": "compact",
                "type": 1,
                "options": [{"name": "keep", "type": 3, "value": "x"}],
            },
        ),
        (3, {"custom_id": "approve:1", "component_type": 2}),
    )
)
