"""Files that people send: fetched when they are asked for, never more than is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from everturn_channels.adapter import IncomingFile
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.json_fields import Json, number_of, object_of, objects_of, text_of
from everturn_channels.slack.formats.content import shared_in
from everturn_channels.slack.requests import RequestFailedError, SlackApi

_WITHHELD: Final = frozenset({"tombstone", "hidden_by_limit", "access_denied"})
"Files of which only the name is left, for the bot."
_PAGES: Final = frozenset({"canvas", "docs", "quip"})
"Canvases. Slack has no page on that; so clients of the API fetch them (stablyai/agent-slack)."


def files_of(raw: Json, api: SlackApi) -> tuple[tuple[IncomingFile, ...], tuple[str, ...]]:
    """Return the files of a message, and what it holds of which there is nothing to fetch."""
    found: list[IncomingFile] = []
    others: list[str] = []
    passed_on = [file for each in shared_in(raw) for file in objects_of(each, "files")]
    for each in (*objects_of(raw, "files"), *passed_on):
        name = text_of(each, "name") or text_of(each, "title") or "file"
        if text_of(each, "mode") in _WITHHELD:
            others.append(f"file that Slack does not show: {name}")
        elif each.get("is_external") is True or text_of(each, "mode") == "external":
            address = text_of(each, "external_url") or text_of(each, "url_private")
            others.append(f"file that stands elsewhere: {name} {address}".strip())
        else:
            found.append(_incoming(each, name, api))
    return tuple(found), tuple(others)


def _incoming(raw: Json, name: str, api: SlackApi) -> IncomingFile:
    async def fetch(limit_bytes: int) -> bytes:
        try:
            return await api.download(await _address(raw, api), limit_bytes)
        except RequestFailedError as error:
            text = f"The file cannot be had from Slack: {error}."
            raise ConnectionLostError(text) from error

    is_page = text_of(raw, "mode") in _PAGES  # what is fetched is HTML, of a size that is not told
    return IncomingFile(
        fetch=fetch,
        file_name=f"{text_of(raw, 'title') or name}.html" if is_page else name,
        media_type="text/html" if is_page else text_of(raw, "mimetype").partition(";")[0].strip(),
        size_bytes=None if is_page else number_of(raw, "size"),
        is_voice=text_of(raw, "subtype") == "slack_audio",
        duration_s=(number_of(raw, "duration_ms") or 0) / 1000,
    )


async def _address(raw: Json, api: SlackApi) -> str:
    """Return where the bytes are; of files of other organizations only the id comes."""
    if text_of(raw, "file_access") == "check_file_info":
        raw = object_of(await api.read("files.info", {"file": text_of(raw, "id")}), "file")
    return text_of(raw, "url_private_download") or text_of(raw, "url_private")


def has_file(messages: Sequence[Json], name: str, size: int, user: str) -> str:
    """Return the id of the message in which somebody sent a file of a name and size; or empty."""
    for raw in messages:
        for each in objects_of(raw, "files"):
            is_it = text_of(each, "name") == name and number_of(each, "size") == size
            if is_it and user in {text_of(raw, "user"), text_of(each, "user")}:
                return text_of(raw, "ts")
    return ""
