"""Which file is where in a workspace. Builds paths, touches nothing.

workspace.lock                      held by the one process that uses the workspace; its pid
sessions/<id>/events.jsonl          the log
sessions/<id>/state.yaml            the snapshot
sessions/<id>/events.archive.jsonl  older events, moved there by compaction
sessions/<id>/results/<name>        texts too large for the log, as UTF-8; the oldest go first
sessions/<id>/media/<sha256>.<end>  files that came with messages; the oldest go first; with `made-`
                                    before the name, files that turns made
active/<id>                         empty: this session may have an open turn
conversations/<sha256>.json         the current session of one conversation
index.sqlite                        all sessions by last activity: a cache, made anew where missing
deleted/<id>                        a deleted session whose files are still being removed
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from everturn_actors.errors import UnknownSessionError
from everturn_actors.ids import is_session_id
from everturn_actors.model import ConversationKey


@dataclass(frozen=True, kw_only=True)  # without slots: the path of the log is built once
class SessionFiles:
    """The files of one session."""

    session_id: str
    folder: Path

    @cached_property
    def log(self) -> Path:
        """Events since the last compaction, oldest first."""
        return self.folder / "events.jsonl"

    @property
    def state(self) -> Path:
        """The snapshot."""
        return self.folder / "state.yaml"

    @property
    def archive(self) -> Path:
        """Events before those of the log, oldest first."""
        return self.folder / "events.archive.jsonl"

    @property
    def results(self) -> Path:
        """The folder of texts that are too large for the log."""
        return self.folder / "results"

    @property
    def media(self) -> Path:
        """The folder of files that came with messages."""
        return self.folder / "media"


class Layout(Struct, frozen=True, kw_only=True, dict=True):  # each path is built once
    """The files of one workspace."""

    workspace: Path

    @cached_property
    def lock(self) -> Path:
        """The lock file."""
        return self.workspace / "workspace.lock"

    @cached_property
    def sessions(self) -> Path:
        """One folder for each session."""
        return self.workspace / "sessions"

    @cached_property
    def active(self) -> Path:
        """One marker for each session that may have an open turn."""
        return self.workspace / "active"

    @cached_property
    def conversations(self) -> Path:
        """One pointer for each conversation."""
        return self.workspace / "conversations"

    @cached_property
    def index(self) -> Path:
        """The index of sessions: a cache."""
        return self.workspace / "index.sqlite"

    @cached_property
    def deleted(self) -> Path:
        """Sessions on their way out."""
        return self.workspace / "deleted"

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders of a workspace."""
        return (self.sessions, self.active, self.conversations, self.deleted)

    def session(self, session_id: str) -> SessionFiles:
        """Return the files of a session, which need not exist.

        Raises:
            UnknownSessionError: It is no session id; no path is built from it.
        """
        return SessionFiles(session_id=session_id, folder=self.sessions / _checked(session_id))

    def marker(self, session_id: str) -> Path:
        """Return the marker of a session.

        Raises:
            UnknownSessionError: It is no session id.
        """
        return self.active / _checked(session_id)

    def pointer(self, key: ConversationKey) -> Path:
        """Return the pointer of a conversation; any key gives a safe name."""
        # Escaped, it is ASCII whatever the key holds; as a list, ("a", "bc") is not ("ab", "c").
        text = json.dumps([key.channel, key.chat, key.topic, key.agent])
        return self.conversations / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def _checked(session_id: str) -> str:
    if not is_session_id(session_id):
        raise UnknownSessionError(session_id)
    return session_id
