"""Which files can be shown as text. Pure."""

from __future__ import annotations

import re
from typing import Final

LIMIT_BYTES: Final = 64 * 1024  # of a file shown whole: some 16,000 tokens

# What is text beside `text/*`.
_TYPES: Final = re.compile(
    r"text/.+|.+\+(json|xml|yaml)|application/(ecmascript|javascript|json|jsonl|ld\+json|sql|toml|"
    r"typescript|x-(httpd-php|javascript|ndjson|sh|shellscript|subrip|tex|toml|typescript|yaml)|"
    r"xml|yaml)"
)
# Data, prose, code. Platforms call many of them `application/octet-stream`, TypeScript a video.
_ENDINGS: Final = re.compile(
    r".+\.(adoc|bib|cfg|conf|csv|diff|env|ics|ini|ipynb|json[5cl]?|log|lock|markdown|mdx?|ndjson|org|"
    r"patch|po|pot|properties|rst|rtf|srt|svg|tex|text|toml|tsv|txt|vcf|vtt|x?html?|xml|xsd|xslt?|"
    r"yaml|yml|"
    r"asm|astro|awk|bash|bat|c|cc|clj[cs]?|cmake|cmd|cpp|cs|css|cxx|d|dart|edn|el|elm|erb|erl|exs?|"
    r"fish|fsx?|go|gql|gradle|graphql|groovy|h|haml|hbs|hcl|hh|hpp|hrl|hs|hxx|java|jinja2?|jl|jsx?|"
    r"kts?|less|lisp|lua|m|mjs|mk|mli?|mm|nim|nix|pas|php|pl|pm|proto|ps1|psql|pug|pyi?|pyx|rake|rb|"
    r"rkt|rs|r|sass|sbt|scala|scm|scss|sh|sol|sql|styl|svelte|swift|tcl|tf|tfvars|thrift|tsx?|vb|"
    r"vhdl?|vue|v|zig|zsh)"
    r"|\.?(changelog|containerfile|dockerfile|dockerignore|editorconfig|env|gemfile|gitattributes|"
    r"gitignore|license|makefile|notice|procfile|readme)"
)


def text_of(
    file_name: str, media_type: str, data: bytes, limit_bytes: int = LIMIT_BYTES
) -> str | None:
    """Return what a file holds, where it can be shown as text; None where it cannot.

    It can where its type or its name says that it is text, it has at most `limit_bytes`, and all
    of it is UTF-8 without NUL. A byte order mark is left out, and lines end as they do here.
    """
    kind = media_type.partition(";")[0].strip().lower()
    claims = _TYPES.fullmatch(kind) or _ENDINGS.fullmatch(file_name.strip().lower())
    if not claims or len(data) > limit_bytes or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
