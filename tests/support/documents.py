"""Small documents, written out."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_LAYOUT = "/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def pdf(*pages: str) -> bytes:
    """Return a PDF with one line of text a page."""
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{_kids(pages)}]>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, text in enumerate(pages):
        content = f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET"
        objects += [
            f"<</Type/Page/Parent 2 0 R{_LAYOUT}/Contents {5 + 2 * number} 0 R>>",
            f"<</Length {len(content)}>>stream\n{content}\nendstream",
        ]
    data, offsets = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj{each}endobj\n".encode()
    places = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{places}trailer<</Size {size}/Root 1 0 R>>\n"
    return data + f"{end}startxref\n{len(data)}\n%%EOF".encode()


def locked_pdf() -> bytes:
    """Return a PDF that says that it is encrypted; nobody has its password."""
    entry = f"<</Filter/Standard/V 1/R 2/O<{'41' * 32}>/U<{'42' * 32}>/P -4>>"
    ids = f"/Encrypt {entry}/ID[<{'43' * 16}><{'43' * 16}>]"
    return pdf("secret").replace(b"/Root 1 0 R", f"/Root 1 0 R{ids}".encode())


def _kids(pages: Sequence[str]) -> str:
    return " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))


class _Repeating:
    """A compressor that packs each text once: gigabytes of the same cost what a megabyte does."""

    def __init__(self) -> None:
        self._packed: dict[bytes, bytes] = {}

    def compress(self, data: bytes) -> bytes:
        """Return a text as a part of a stream that can be read by itself."""
        if data not in self._packed:
            packer = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
            self._packed[data] = packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)
        return self._packed[data]

    def flush(self) -> bytes:
        """Return the end of the stream."""
        return zlib.compressobj(wbits=-zlib.MAX_WBITS).flush()


def docx(*paragraphs: str, padding_bytes: int = 0) -> bytes:
    """Return a Word file; `padding_bytes` makes its text as long, and the file hardly longer."""
    texts = "".join(f"<w:p><w:r><w:t>{each}</w:t></w:r></w:p>" for each in paragraphs)
    part = '<Override PartName="/word/document.xml" ContentType="' + _WORD + '"/>'
    relation = f'<Relationship Id="r" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{_TYPES}">{part}</Types>')
        archive.writestr(
            "_rels/.rels", f'<Relationships xmlns="{_RELATIONS}">{relation}</Relationships>'
        )
        with archive.open("word/document.xml", "w", force_zip64=True) as file:
            file._compressor = _Repeating()  # type: ignore[attr-defined]
            file.write(f'<w:document xmlns:w="{_W}"><w:body>{texts}<w:p><w:r><w:t>'.encode())
            padding = b"a" * 1_000_000
            for _ in range(padding_bytes // len(padding)):
                file.write(padding)
            file.write(b"</w:t></w:r></w:p></w:body></w:document>")
    return sink.getvalue()


def xlsx(*rows: Sequence[str]) -> bytes:
    """Return a spreadsheet of one sheet with texts."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    lines = (
        "".join(f'<c t="inlineStr"><is><t>{each}</t></is></c>' for each in row) for row in rows
    )
    cells = "".join(f"<row>{line}</row>" for line in lines)
    sheet = f'<sheet name="Stock" sheetId="1" xmlns:r="{_OFFICE}" r:id="r1"/>'
    book = f'<Relationship Id="r" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    leaf = f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, text in {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"/>',
            "_rels/.rels": f'<Relationships xmlns="{_RELATIONS}">{book}</Relationships>',
            "xl/_rels/workbook.xml.rels": (
                f'<Relationships xmlns="{_RELATIONS}">{leaf}</Relationships>'
            ),
            "xl/workbook.xml": f'<workbook xmlns="{main}"><sheets>{sheet}</sheets></workbook>',
            "xl/worksheets/sheet1.xml": (
                f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
            ),
        }.items():
            archive.writestr(name, text)
    return sink.getvalue()
