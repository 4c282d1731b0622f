"""What can be seen of a workspace and of the platforms around it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from support.discord_api import DiscordApi
from support.telegram_api import Json, TelegramApi


def read_logs(workspace: Path) -> dict[str, list[Json]]:
    """Return the events of each conversation; a kill may have left some in archive and log."""
    found: dict[str, list[Json]] = {}
    for home in sorted((workspace / "sessions").glob("*")):
        events: dict[int, Json] = {}
        for name in ("events.archive.jsonl", "events.jsonl"):
            file = home / name
            lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
            for line in lines:
                if line.endswith(b"\n"):
                    event = json.loads(line)
                    events[event["seq"]] = event
        if events:
            log = [events[seq] for seq in sorted(events)]
            key = log[0].get("key", {})
            name = "/".join(str(key.get(part, "?")) for part in ("channel", "chat", "agent"))
            if key.get("channel") == "http":
                name = "http"
            found.setdefault(name, []).extend(log)
    return found


def has_nothing_pending(log: list[Json]) -> bool:
    """Whether everything in a log was answered, and everything that is pending was sent."""
    received = {e["seq"] for e in log if e["type"] == "received"}
    kinds = {"turn_started", "steered", "discarded"}
    read = {seq for e in log if e["type"] in kinds for seq in e["received"]}
    begun = Counter(e["type"] for e in log)
    turns = {e["turn"]: e.get("delivers") for e in log if e["type"] == "turn_started"}
    open_turn = 0
    outbox = {e["seq"] for e in log if e["type"] == "announced" and e.get("delivers")}
    for event in log:
        if event["type"] == "turn_started":
            open_turn = event["turn"]
        elif event["type"] == "model_replied" and event.get("text") and turns.get(open_turn):
            outbox.add(event["seq"])
    plans = {e["item"]: len(e["chunks"]) for e in log if e["type"] == "delivery_planned"}
    last = {(e["item"], e["chunk"]): e["mark"] for e in log if e["type"] == "chunk_marked"}
    chunks = [(item, n) for item, count in plans.items() for n in range(count)]
    return (
        received <= read
        and begun["turn_started"] == begun["turn_finished"]
        and outbox <= plans.keys()
        and all(last.get(chunk) in {"sent", "failed", "given_up", "closed"} for chunk in chunks)
    )


def lines_of(file: Path) -> int:
    """Return how many lines a file has; 0 where there is none."""
    return len(file.read_text().splitlines()) if file.exists() else 0


def chats_of(telegram: TelegramApi | None, discord: DiscordApi | None) -> dict[str, list[str]]:
    """Return the texts of the bot's messages in each chat as they stand now, oldest first."""
    chats: dict[str, list[str]] = {}
    if telegram is not None:
        me = telegram.me["id"]
        for (chat, _), message in telegram.messages.items():
            if message["from"]["id"] == me:
                chats.setdefault(str(chat), []).append(str(message.get("text", "")))
    if discord is not None:
        for channel in discord.world.channels:
            texts = [str(message["content"]) for message in discord.said(channel)]
            if texts:
                chats[channel] = texts
    return chats


def runs_of(workspace: Path) -> tuple[str, ...]:
    """Return how the runs of each job came out."""
    said: list[str] = []
    for file in sorted((workspace / "schedules" / "runs").glob("*.jsonl")):
        records = [json.loads(line) for line in file.read_text().splitlines()]
        begun = Counter(
            (r["scheduled_at"], r.get("attempt", 1)) for r in records if r["kind"] == "began"
        )
        ends = [r["outcome"] for r in records if r["kind"] == "finished"]
        doubled = " begun twice" if any(times > 1 for times in begun.values()) else ""
        said.append(f"{file.stem}: {', '.join(ends)}{doubled}")
    return tuple(said)


def complaints(log: Path) -> list[str]:
    """Return the lines of a log that tell of something that must not happen."""
    lines = log.read_text().splitlines()
    return [line for line in lines if " ERROR " in line or line.startswith("Traceback")]
