"""The file tools: what the model is told of them, and what they do."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.errors import ToolFailedError
from everturn_actors.outside import one_source, together
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.confined import Place, Version
from everturn_gateway.tools.environment import FileWrite, ToolEnvironment
from everturn_gateway.tools.files import documents, reading
from everturn_gateway.tools.files.editing import Edited, edit
from everturn_gateway.tools.files.finding import FILE_MAX_BYTES, Finding, Found, SearchQuery
from everturn_gateway.tools.files.listing import (
    ENTRIES_MAX,
    HITS_MAX,
    files_text,
    folder_text,
    hits_text,
)
from everturn_gateway.tools.files.workspace import workspace_of
from everturn_gateway.tools.files.writing import Writer, WritingTool
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.marks import file_source
from everturn_gateway.tools.policy.files.protected_files import reason_on_disk
from everturn_gateway.tools.policy.judged_writes import JudgedWrites
from everturn_gateway.tools.wording import counted, shown

READ_MAX_BYTES: Final = 8 * 1024 * 1024  # of one file; also the largest that can be edited
WRITE_MAX_BYTES: Final = 2 * 1024 * 1024
_PATTERN_CHARACTERS = 300
_QUERY_CHARACTERS = 1000
_HEAD_CHARACTERS = 8  # of a file, which say whether it is a program
_READS: Final = ToolCapabilities(read_only=True, safe=True, timeout_s=60)
_WRITES: Final = ToolCapabilities(repeatable=True, safe=True, timeout_s=60)
_EDITS: Final = ToolCapabilities(safe=True, timeout_s=60)

FromOne = Annotated[int, Field(ge=1)]


class ReadFile(Arguments):
    """What to read."""

    path: str
    offset: FromOne = Field(default=1, description="first line")
    limit: Annotated[int, Field(ge=1, le=reading.LINES_MAX)] = Field(
        default=reading.LINES_MAX, description="how many lines"
    )
    column: FromOne = Field(default=1, description="where to begin in a very long line")
    pages: Annotated[str, Field(max_length=20)] = Field(
        default="", description="of a PDF: 3, 2-5 or 7-"
    )


class WriteFile(Arguments):
    """What to write."""

    path: str
    content: str


class EditFile(Arguments):
    """What to replace."""

    path: str
    old_text: str
    new_text: str
    replace_all: bool = False


class ListFiles(Arguments):
    """What to list."""

    path: str = "."
    pattern: Annotated[str, Field(max_length=_PATTERN_CHARACTERS)] = Field(
        default="", description="all files below whose name fits, such as *.md or src/*.py"
    )
    offset: FromOne = Field(default=1, description="first entry, where a list goes on")


class SearchFiles(Arguments):
    """What to search for."""

    query: Annotated[str, Field(min_length=1, max_length=_QUERY_CHARACTERS)] = Field(
        description="text within one line"
    )
    path: str = Field(default=".", description="folder or file")
    pattern: Annotated[str, Field(max_length=_PATTERN_CHARACTERS)] = Field(
        default="", description="only in files whose name fits, such as *.md"
    )
    regex: bool = False
    ignore_case: bool = False


def file_tools(
    environment: ToolEnvironment, *, read_only: bool, judged: JudgedWrites | None = None
) -> tuple[Tool, ...]:
    """Return the file tools of one agent, confined to `environment.files`.

    Args:
        environment: Where they work.
        read_only: Whether those are left out that write.
        judged: For which file the gate judged a call; without it none was judged for one, and no
            protected file is written.
    """
    files = _Files(environment, judged or JudgedWrites())
    reads: tuple[Tool, ...] = (
        FunctionTool(
            "read_file",
            "Read a file of your workspace as text, PDFs and office files too: each line after its"
            " number and a tab.",
            arguments=ReadFile,
            capabilities=_READS,
            answer=files.read,
        ),
        FunctionTool(
            "list_files",
            "List a folder of your workspace, or all files below it that fit a pattern.",
            arguments=ListFiles,
            capabilities=_READS,
            answer=files.list,
        ),
        FunctionTool(
            "search_files",
            "Find lines in the text files of your workspace.",
            arguments=SearchFiles,
            capabilities=_READS,
            answer=files.search,
        ),
    )
    if read_only:
        return reads
    return (
        *reads,
        WritingTool(
            "write_file",
            "Write a whole text file in your workspace; what was in it is gone. Makes folders.",
            arguments=WriteFile,
            capabilities=_WRITES,
            write=files.write,
            intent=files.intent_to_write,
        ),
        WritingTool(
            "edit_file",
            "Replace text in a file of your workspace. old_text has to stand there exactly once,"
            " to the blank, without line numbers; or use replace_all.",
            arguments=EditFile,
            capabilities=_EDITS,
            write=files.edit,
            intent=files.intent_to_edit,
        ),
    )


class _Files:
    def __init__(self, environment: ToolEnvironment, judged: JudgedWrites) -> None:
        self._folder = workspace_of(environment)
        self._judged = judged
        self._finding = Finding(self._folder, environment.environ)
        self._marks = environment.marks
        self._environ = environment.environ

    async def read(self, asked: ReadFile, _context: ToolContext) -> ToolOutput:
        wanted = documents.pages_of(asked.pages)
        if not documents.is_named_document(asked.path):
            return await self._folder.run(partial(self._page, asked), reads=True)
        data, source = await self._folder.run(partial(self._document, asked.path), reads=True)
        if not documents.is_document(asked.path, data):  # somebody's text under such a name
            return await self._folder.run(partial(self._page, asked), reads=True)
        text, notes = await documents.text_of(asked.path, data, wanted, self._environ)
        lines = reading.LineRange(line=asked.offset, lines=asked.limit, column=asked.column)
        page = reading.page(asked.path, text, lines, notes=notes) if text else " ".join(notes)
        return ToolOutput(text=page, untrusted=bool(source), source=source)

    async def list(self, asked: ListFiles, _context: ToolContext) -> str:
        if not asked.pattern:
            work = partial(folder_text, self._folder, asked.path, asked.offset)
            return await self._folder.run(work, reads=True)
        hits = asked.offset + ENTRIES_MAX
        wanted = SearchQuery(path=asked.path, pattern=asked.pattern, hits=hits)
        return files_text(wanted, await self._finding.find(wanted), asked.offset)

    async def search(self, asked: SearchFiles, _context: ToolContext) -> ToolOutput:
        if "\n" in asked.query.rstrip("\n"):
            msg = "query: lines are searched one by one; give text of a single line"
            raise ToolFailedError(msg)
        wanted = SearchQuery(
            path=asked.path,
            query=asked.query.rstrip("\n") or asked.query,
            regex=asked.regex,
            ignore_case=asked.ignore_case,
            pattern=asked.pattern,
            hits=HITS_MAX + 1,
        )
        found = await self._finding.find(wanted)
        source = await self._folder.run(partial(self._source_of_hits, found), reads=True)
        return ToolOutput(text=hits_text(found), untrusted=bool(source), source=source)

    async def write(self, asked: WriteFile, by: Writer) -> str:
        return await self._folder.run(partial(self._write, asked, by))

    async def edit(self, asked: EditFile, by: Writer) -> str | ToolOutput:
        return await self._folder.run(partial(self._edit, asked, by))

    async def intent_to_write(self, asked: WriteFile) -> FileWrite:
        return await self._folder.run(partial(self._intent, asked.path, asked.content), reads=True)

    async def intent_to_edit(self, asked: EditFile) -> FileWrite:
        def intent() -> FileWrite:
            with self._folder.place(asked.path) as place:
                data, _ = place.read(READ_MAX_BYTES)
            return self._intent(asked.path, self._edited(asked, data).text)

        return await self._folder.run(intent, reads=True)

    def _intent(self, path: str, content: str) -> FileWrite:
        head = content[:_HEAD_CHARACTERS].encode("utf-8", "replace")
        return FileWrite(root=self._folder.root, path=self._folder.where(path), head=head)

    def _check(self, place: Place, by: Writer, head: bytes) -> None:
        """Refuse a protected file that the call was not judged for, at the moment of writing.

        Raises:
            ToolFailedError: It leads elsewhere than it did, or the file became another.
        """
        if self._judged.is_judged(by.session_id, by.call_id, place.inside):
            return
        named = self._judged.named
        if reason := reason_on_disk(self._folder.root, place.inside, named=named, data=head):
            msg = (
                f"{shown(place.path)} is {shown(place.inside)}, which needs a person's word"
                f" ({reason}), and was not that when the call was judged; nothing was written, call"
                " it again"
            )
            raise ToolFailedError(msg)

    def _document(self, path: str) -> tuple[bytes, str]:
        """Read a document; return it with the text from outside in it, in words."""
        most = documents.READ_MAX_BYTES
        with self._folder.place(path) as place:
            data, version, sources = self._read(place, most)
        if version[2] > most:
            msg = f"{shown(path)} has {version[2]:,} bytes; {most:,} are the most of a document"
            raise ToolFailedError(msg)
        return data, file_source(place.inside, sources) if sources else ""

    def _read(
        self, place: Place, most: int = READ_MAX_BYTES
    ) -> tuple[bytes, Version, tuple[str, ...]]:
        """Read a file, with the text from outside in it, by source."""
        found: list[str] = []

        def look(fd: int) -> None:
            found.extend(self._marks.sources(fd, place.inside))

        with self._marks.reading():
            data, version = place.read(most, look=look)
        return data, version, tuple(found)

    def _source_of_hits(self, found: Found) -> str:
        """Return in words the text from outside in files with hits; empty = there is none."""
        if not found.hits or not self._marks.may_have_marks:
            return ""
        sources: list[str] = []
        for path in dict.fromkeys(hit.path for hit in found.hits):
            try:
                in_file = self._sources_in(path)
            except ToolFailedError:  # it went meanwhile
                in_file = ("a file that is gone",)
            if in_file:
                sources.append(file_source(path, in_file))
        return one_source("; ".join(together(sources)))

    def _sources_in(self, path: str) -> tuple[str, ...]:
        with self._marks.reading(), self._folder.opened(path) as fd:
            return self._marks.sources(fd, self._folder.where(path))

    def _page(self, asked: ReadFile) -> ToolOutput:
        with self._folder.place(asked.path) as place:
            data, version, sources = self._read(place)
        source = file_source(place.inside, sources) if sources else ""
        notes: list[str] = []
        size = version[2]
        if size > READ_MAX_BYTES:
            data = data[: data.rfind(b"\n") + 1] or data
            notes.append(
                f"the file has {size:,} bytes, of which only the first {len(data):,} can be read"
            )
        text, is_utf8 = reading.decode(asked.path, data)
        if not is_utf8:
            notes.append(r"not all of it is UTF-8: such bytes are shown as \xff")
        if "\r\n" in text:
            notes.append(r"lines end in \r\n")
        wanted = reading.LineRange(line=asked.offset, lines=asked.limit, column=asked.column)
        page = reading.page(asked.path, text, wanted, notes=tuple(notes))
        return ToolOutput(text=page, untrusted=bool(source), source=source)

    def _write(self, asked: WriteFile, by: Writer) -> str:
        data = _encoded("content", asked.content)
        if len(data) > WRITE_MAX_BYTES:
            msg = f"content: {len(data):,} bytes; {WRITE_MAX_BYTES:,} are the most"
            raise ToolFailedError(msg)
        with self._folder.place(asked.path, create=True) as place, place.locked():
            self._check(place, by, data[:_HEAD_CHARACTERS])
            before = place.replace(data, look=partial(self._marks.mark, sources=by.outside))
        was = "a new file" if before is None else f"it had {counted(before, 'byte')}"
        return f"wrote {counted(len(data), 'byte')} to {shown(asked.path)} ({was})"

    def _edit(self, asked: EditFile, by: Writer) -> str | ToolOutput:
        with self._folder.place(asked.path) as place, place.locked():
            data, version, sources = self._read(place)
            if version[2] > READ_MAX_BYTES:
                msg = f"{shown(asked.path)} has {version[2]:,} bytes; that is too large to edit"
                raise ToolFailedError(msg)
            try:
                edited = self._edited(asked, data)
            except ToolFailedError as error:
                if not sources:
                    raise
                # It may quote what stands there.
                source = file_source(place.inside, sources)
                return ToolOutput(text=str(error), is_error=True, untrusted=True, source=source)
            new = _encoded("new_text", edited.text)
            self._check(place, by, new[:_HEAD_CHARACTERS])
            kept = partial(self._marks.mark, sources=together(sources, by.outside))
            place.replace(new, expected=version, look=kept)
        lines = ", ".join(map(str, edited.lines))
        more = ", …" if edited.count > len(edited.lines) else ""
        places = counted(edited.count, "place")
        return f"replaced {places} in {shown(asked.path)} (line {lines}{more})"

    def _edited(self, asked: EditFile, data: bytes) -> Edited:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = ""
        if "\0" in text or (data and not text):
            msg = f"{shown(asked.path)} is not text in UTF-8, and cannot be edited"
            raise ToolFailedError(msg)
        found = edit(asked.path, text, asked.old_text, asked.new_text, every=asked.replace_all)
        if len(found.text) > FILE_MAX_BYTES:
            msg = f"{shown(asked.path)} would be larger than {FILE_MAX_BYTES:,} bytes"
            raise ToolFailedError(msg)
        return found


def _encoded(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        msg = f"{field}: holds half of a surrogate pair (character {error.start + 1})"
        raise ToolFailedError(msg) from error
