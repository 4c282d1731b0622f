"""The methods of the pretended Slack, each as its page under docs.slack.dev/reference/methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from support.slack_api import (
    BOT,
    BOT_ID,
    MARKDOWN_MAX,
    TEAM,
    Json,
    Method,
    SlackApi,
    open_workspace,
    refuse,
)

METHODS: Final[dict[str, Method]] = {}
_PAGE_MAX: Final = 999
_FALLBACK_MAX: Final = 4_000  # of an update, msg_too_long
_LABEL_MAX, _VALUE_MAX = 75, 2_000


def _method(name: str) -> Callable[[Method], Method]:
    def register(method: Method) -> Method:
        METHODS[name] = method
        return method

    return register


def _channel(api: SlackApi, channel: str) -> Json:
    found = api.channels.get(channel)
    if found is None:
        refuse("channel_not_found")
    if BOT not in found["members"]:
        refuse("not_in_channel")
    return found


@_method("auth.test")
async def _auth(api: SlackApi, fields: Json) -> Json:
    return {"team": "Test", "team_id": TEAM, "user": "everturn", "user_id": BOT, "bot_id": BOT_ID}


@_method("apps.connections.open")
async def _open(api: SlackApi, fields: Json) -> Json:
    if not api.socket_mode:
        refuse("missing_scope connections:write")
    return {"url": api.ticket()}


@_method("users.conversations")
async def _conversations(api: SlackApi, fields: Json) -> Json:
    kinds = fields["types"].split(",")
    found = [
        {"id": channel, "is_im": True} if channel[0] == "D" else {"id": channel, "name": c["name"]}
        for channel, c in api.channels.items()
        if BOT in c["members"] and ("im" if channel[0] == "D" else "public_channel") in kinds
    ]
    page, cursor = _page(found, fields)
    return {"channels": page, "response_metadata": {"next_cursor": cursor}}


@_method("users.info")
async def _user(api: SlackApi, fields: Json) -> Json:
    if fields["user"] not in api.users:
        refuse("user_not_found")
    name = api.users[fields["user"]]
    profile = {"display_name": name.title(), "real_name": name}
    user = {
        "id": fields["user"],
        "name": name,
        "profile": profile,
        "is_bot": "BOT" in fields["user"],
    }
    more = {"locale": "de-DE"} if fields.get("include_locale") == "true" else {}
    return {"user": user | more}


@_method("conversations.info")
async def _info(api: SlackApi, fields: Json) -> Json:
    return {"channel": {"id": fields["channel"], "name": _channel(api, fields["channel"])["name"]}}


@_method("conversations.history")
async def _history(api: SlackApi, fields: Json) -> Json:
    messages = [
        raw
        for raw in _channel(api, fields["channel"])["messages"].values()
        if raw.get("thread_ts", raw["ts"]) == raw["ts"] or raw.get("subtype") == "thread_broadcast"
    ]
    found = [raw for raw in messages if _is_between(raw, fields)]
    if "latest" in fields or "oldest" not in fields:
        found.reverse()
    page, cursor = _page([_told(raw, fields) for raw in found], fields)
    page.sort(key=lambda raw: raw["ts"], reverse=True)
    return _messages(page, cursor)


@_method("conversations.replies")
async def _replies(api: SlackApi, fields: Json) -> Json:
    messages, thread = _channel(api, fields["channel"])["messages"], fields["ts"]
    if thread not in messages:
        refuse("thread_not_found")
    replies = [
        raw
        for raw in messages.values()
        if raw.get("thread_ts") == thread and raw["ts"] != thread and _is_between(raw, fields)
    ]
    found = [_told(raw, fields) for raw in (messages[thread], *replies)]
    return _messages(*_page(found, fields))


def _messages(page: list[Json], cursor: str) -> Json:
    return {
        "messages": page,
        "has_more": bool(cursor),
        "response_metadata": {"next_cursor": cursor},
    }


def _is_between(raw: Json, fields: Json) -> bool:
    ts = float(raw["ts"])
    return float(fields.get("oldest", 0)) < ts < float(fields.get("latest", 1e12))


def _told(raw: Json, fields: Json) -> Json:
    shown = dict(raw)
    if fields.get("include_all_metadata") != "true":
        shown.pop("metadata", None)
    return shown


def _page(found: list[Json], fields: Json) -> tuple[list[Json], str]:
    limit = int(fields.get("limit", 100))
    if not 0 < limit <= _PAGE_MAX:
        refuse("invalid_limit")
    begin = int(fields.get("cursor") or 0)
    end = begin + limit
    return found[begin:end], str(end) if end < len(found) else ""


@_method("chat.postMessage")
async def _post(api: SlackApi, fields: Json) -> Json:
    channel = fields["channel"]
    messages = _channel(api, channel)["messages"]
    content = _content(fields)
    thread = fields.get("thread_ts", "")
    if thread:
        if thread not in messages:
            refuse("thread_not_found")
        content["thread_ts"] = thread
    return {"channel": channel, "ts": await api.post(channel, content)}


@_method("chat.update")
async def _update(api: SlackApi, fields: Json) -> Json:
    channel, ts = fields["channel"], fields["ts"]
    messages = _channel(api, channel)["messages"]
    if ts not in messages:
        refuse("message_not_found")
    if messages[ts]["user"] != BOT:
        refuse("cant_update_message")
    if len(fields.get("text", "")) > _FALLBACK_MAX:
        refuse("msg_too_long")
    before = dict(messages[ts])
    messages[ts].pop("metadata", None)
    messages[ts] |= _content(fields)
    await api._tell_change(channel, messages[ts], before)
    return {"channel": channel, "ts": ts}


def _content(fields: Json) -> Json:
    """Return what a message holds.

    Raises:
        SlackError: It holds what no message may.
    """
    blocks = json.loads(fields.get("blocks", "[]"))
    if not blocks and not fields.get("text"):
        refuse("no_text")
    markdown = "".join(each["text"] for each in blocks if each["type"] == "markdown")
    if len(markdown.encode("utf-16-le")) // 2 > MARKDOWN_MAX:
        refuse("msg_blocks_too_long")
    for block in blocks:
        if block["type"] == "actions" and not all(map(_is_button, block["elements"])):
            refuse("invalid_blocks")
    content: Json = {"text": fields.get("text", ""), "blocks": blocks}
    if metadata := fields.get("metadata"):
        value: Json = json.loads(metadata)
        if value.keys() != {"event_type", "event_payload"}:
            refuse("invalid_metadata_format")
        content["metadata"] = value
    return content


def _is_button(element: Json) -> bool:
    text: Any = element["text"]["text"]
    return 0 < len(text) <= _LABEL_MAX and 0 < len(element["value"]) <= _VALUE_MAX


@_method("reactions.add")
async def _react(api: SlackApi, fields: Json) -> Json:
    users = _reactions(api, fields).setdefault(fields["name"], [])
    if BOT in users:
        refuse("already_reacted")
    users.append(BOT)
    return {}


@_method("reactions.remove")
async def _unreact(api: SlackApi, fields: Json) -> Json:
    users = _reactions(api, fields).get(fields["name"], [])
    if BOT not in users:
        refuse("no_reaction")
    users.remove(BOT)
    return {}


@_method("reactions.get")
async def _reacted(api: SlackApi, fields: Json) -> Json:
    found = [
        {"name": name, "users": users, "count": len(users)}
        for name, users in _reactions(api, fields).items()
        if users
    ]
    return {"message": {"reactions": found}}


def _reactions(api: SlackApi, fields: Json) -> dict[str, list[str]]:
    message = _channel(api, fields["channel"])["messages"].get(fields["timestamp"])
    if message is None:
        refuse("message_not_found")
    found: dict[str, list[str]] = message.setdefault("reacted", {})
    return found


@_method("files.getUploadURLExternal")
async def _place(api: SlackApi, fields: Json) -> Json:
    file = api.add_file(fields["filename"], b"", BOT)
    api.files[file["id"]] |= {"told": file, "length": int(fields["length"])}
    return {"file_id": file["id"], "upload_url": f"{api.url}/upload/{file['id']}"}


@_method("files.completeUploadExternal")
async def _complete(api: SlackApi, fields: Json) -> Json:
    _channel(api, fields["channel_id"])
    shared: list[Json] = []
    for each in json.loads(fields["files"]):
        kept, data = api.files[each["id"]], api.uploads.get(each["id"])
        if data is None or len(data) != kept["length"]:
            refuse("file_not_found")
        kept["data"] = data
        shared.append(kept["told"] | {"title": each["title"], "size": len(data)})
    more = {"thread_ts": fields["thread_ts"]} if "thread_ts" in fields else {}
    content = {"text": fields.get("initial_comment", ""), "files": shared}
    await api.post(fields["channel_id"], content, **more)
    return {"files": [{"id": each["id"], "title": each["title"]} for each in shared]}


@_method("assistant.threads.setStatus")
async def _status(api: SlackApi, fields: Json) -> Json:
    _channel(api, fields["channel_id"])
    api.statuses.append((fields["channel_id"], fields["thread_ts"], fields["status"]))
    return {}


def open_slack_api() -> AbstractAsyncContextManager[SlackApi]:
    """Run Slack on a port of loopback while the block runs."""
    return open_workspace(METHODS)
