"""Fetches what draws the diagrams of the site, so that its pages ask nobody else for it.

`python docs/site/diagrams.py FOLDER` puts Mermaid (MIT) into a folder, from the package on npm's
registry that is named here by its digest.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import Final

VERSION: Final = "11.17.2"
SHA256: Final = "6ad2f42c3fc26bbf9e45cbb6d11898972573ea52b33a5f4ff51952899f950ffd"
URL: Final = f"https://registry.npmjs.org/mermaid/-/mermaid-{VERSION}.tgz"
FILES: Final = {
    "package/dist/mermaid.min.js": "mermaid.min.js",
    "package/LICENSE": "mermaid.LICENSE.txt",
}
_WAIT_S: Final = 60.0


def main(folder: Path) -> None:
    """Put the files into a folder."""
    with urllib.request.urlopen(URL, timeout=_WAIT_S) as answer:
        package = answer.read()
    found = hashlib.sha256(package).hexdigest()
    if found != SHA256:
        sys.exit(f"{URL} is not what it was: its SHA-256 is {found}, and not {SHA256}")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for name, target in FILES.items():
            member = archive.extractfile(name)
            if member is None:
                sys.exit(f"{URL} has no {name}")
            (folder / target).write_bytes(member.read())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
