"""What an editor sends as a prompt, as a message with files. Pure."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import Upload

Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def message_of(blocks: Sequence[Block]) -> tuple[str, tuple[Upload, ...]]:
    """Return the text and the files of a prompt. Decodes them, so not for the event loop.

    Raises:
        InvalidInputError: A file is not base64.
    """
    texts: list[str] = []
    uploads: list[Upload] = []
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                texts.append(text)
            case ImageContentBlock(data=data, mime_type=kind, uri=uri):
                uploads.append(_upload(data, kind, uri or ""))
            case AudioContentBlock(data=data, mime_type=kind):
                uploads.append(_upload(data, kind, ""))
            case ResourceContentBlock(name=name, uri=uri):
                texts.append(f"[{name}]({uri})")
            case _:
                resource = block.resource
                if isinstance(resource, TextResourceContents):
                    # What stands in the file is no instruction of the person who names it.
                    texts.append(f'\n<file uri="{resource.uri}">\n{resource.text}\n</file>\n')
                else:
                    kind = resource.mime_type or ""
                    uploads.append(_upload(resource.blob, kind, resource.uri))
    return "".join(texts), tuple(uploads)


def _upload(data: str, media_type: str, uri: str) -> Upload:
    try:
        content = b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        msg = f"the file {uri or media_type} in the prompt is not base64"
        raise InvalidInputError(msg) from None
    return Upload(data=content, media_type=media_type, file_name=_file_name(uri))


def _file_name(uri: str) -> str:
    try:
        return PurePosixPath(unquote(urlsplit(uri).path)).name
    except ValueError:  # it is no address; the file is one all the same
        return ""
