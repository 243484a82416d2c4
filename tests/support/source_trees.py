"""Parsed modules of gradebook: the laws over them share a worker, so that each module is parsed once."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Syntax tree of a module. Garbage collection waits meanwhile: it would look at millions of nodes and free none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        if was_enabled:
            gc.enable()
