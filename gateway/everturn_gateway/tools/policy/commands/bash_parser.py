"""tree-sitter's parser of bash. Importing it loads a library: not for the program's start."""

from __future__ import annotations

from collections.abc import Callable

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_bash.language())


def parse(read: Callable[[int, object], bytes], is_enough: Callable[[int, bool], bool]) -> Node:
    """Return the root of what `read` gives piece by piece.

    Raises:
        ValueError: `is_enough` said so, which is asked at each step.
    """
    return Parser(_LANGUAGE).parse(read, progress_callback=is_enough).root_node
