"""Users' templates, which show a case to a judge: a small part of Jinja's language, without any code.

A template may name values, test whether they are there, and go over lists, such as the context's passages. It has no
attributes, calls, arithmetic or nested loops. The items of its loops and the characters that it reads and gives are
counted and limited, so that no template takes more than seconds over any case.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MOST_TEMPLATE_LENGTH = 20_000
MOST_NAMES = 50  # places of a template that show values
MOST_RENDERED_LENGTH = 4_000_000
MOST_READ_LENGTH = 20_000_000  # characters that filters and comparisons read
MOST_ITEMS = 10_000  # items of all loops
READING_FILTERS = ("lower", "upper", "trim")  # filters that read the whole text
FILTERS = ("default", "length", *READING_FILTERS, "first", "last")
TESTS = ("defined", "undefined", "none")
_SHOW, _READ, _ITEMS = "show_value", "read_value", "list_items"  # functions that a compiled template calls
TEXTS = ("output", "reference")  # values of a case that are texts; all others may be lists
TAKEN = ("self", "loop", "caller", "varargs", "kwargs", _SHOW, _READ, _ITEMS)  # names that the language reserves
_NODES = frozenset(
    "Template Output TemplateData Name Const If Not And Or Compare Operand Test Filter For CondExpr".split()  # noqa: SIM905
)


class TemplateFault(ValueError):
    """The template can't show a case; the message says why."""


def check_template(template: str) -> str:
    """Return the template. Raises `ValueError` for anything that is not in the small part of the language."""
    _compiled(template)
    return template


def render_template(template: str, values: Mapping[str, Any], show: Callable[[Any], str]) -> str:
    """Text of a template. show: formats a value so that it can't be taken for text of the template.

    Raises `TemplateFault` for a missing value, and for a text that is too long.
    """
    from jinja2 import TemplateError, UndefinedError

    reads = _CountedReads(show)
    functions = {_SHOW: reads.show_value, _READ: reads.read_value, _ITEMS: reads.list_items}
    chunks, length = [], 0
    try:
        for chunk in _compiled(template).generate({**values, **functions}):
            chunks.append(chunk)
            length += len(chunk)
            _limit(length, MOST_RENDERED_LENGTH, "gives", "characters")
    except UndefinedError as error:
        raise TemplateFault(f"the template asks for more than the case has: {str(error)[:100]}") from None
    except (TemplateError, TypeError, ValueError, RecursionError) as error:
        raise error if isinstance(error, TemplateFault) else TemplateFault("the template fails on this case") from None
    return "".join(chunks)


@dataclass(slots=True)
class _CountedReads:
    """Counter of the characters and items that one rendering reads."""

    show: Callable[[Any], str]
    read_length: int = 0
    item_count: int = 0

    def show_value(self, value: Any) -> str:
        from jinja2 import Undefined

        if isinstance(value, Undefined):
            raise TemplateFault(f"the template names {value._undefined_name}, which the case has not")
        return self.show(value)

    def read_value(self, value: Any) -> Any:
        """Return the value for a filter or a comparison, counted."""
        self.read_length += len(value if isinstance(value, str) else str(value))
        _limit(self.read_length, MOST_READ_LENGTH, "reads", "characters")
        return value

    def list_items(self, value: Any, name: str) -> list[Any]:
        """Return the items of a loop, counted."""
        from jinja2 import Undefined

        if isinstance(value, Undefined):
            raise TemplateFault(f"the template names {name}, which the case has not")
        if not isinstance(value, list):
            raise TemplateFault(f"the template loops over {name}, which is no list")
        self.item_count += len(value)
        _limit(self.item_count, MOST_ITEMS, "loops over", "items")
        return value


def _limit(count: int, most: int, verb: str, what: str) -> None:
    if count > most:
        raise TemplateFault(f"the template {verb} more than {most:,} {what}, expected fewer")


@lru_cache(maxsize=256)
def _compiled(template: str) -> Any:
    from jinja2 import TemplateError

    if len(template) > MOST_TEMPLATE_LENGTH:
        raise ValueError(f"found a template of {len(template):,} characters, expected at most {MOST_TEMPLATE_LENGTH:,}")
    try:
        return _parsed(template)
    # Jinja and Python walk a template by recursion, and Python limits how deep code is indented.
    except (TemplateError, RecursionError, SyntaxError, MemoryError) as error:
        raise ValueError(f"found no template ({str(error)[:200]}), expected Jinja's {{{{ output }}}}") from None


def _parsed(template: str) -> Any:
    from jinja2 import StrictUndefined
    from jinja2.nodes import Name, Node
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.globals.clear()
    parsed = environment.parse(template)
    nodes = [*parsed.find_all(Node)]
    for node in nodes:
        if (fault := _fault_of(node)) is not None:
            raise ValueError(f"line {node.lineno}: found {fault}")
    if sum(isinstance(node, Name) for node in nodes) > MOST_NAMES:
        raise ValueError(f"found more than {MOST_NAMES} names, expected fewer")
    for node in nodes:
        _count(node)
    return environment.from_string(parsed)


def _count(node: Any) -> None:
    """Rewrite a part of a template so that it reads values through the functions of `_CountedReads`."""
    from jinja2.nodes import Call, Compare, Const, Filter, For, Name, Operand, Output, TemplateData

    def call(name: str, *arguments: Any) -> Any:
        return Call(Name(name, "load"), list(arguments), [], None, None)

    if isinstance(node, Output):
        node.nodes = [child if isinstance(child, TemplateData) else call(_SHOW, child) for child in node.nodes]
    elif isinstance(node, Compare | Operand):
        node.expr = call(_READ, node.expr)
    elif isinstance(node, Filter) and node.name in READING_FILTERS:
        node.node = call(_READ, node.node)
    elif isinstance(node, For) and isinstance(node.iter, Name):
        node.iter = call(_ITEMS, node.iter, Const(node.iter.name))


def _fault_of(node: Any) -> str | None:
    """Fault of a part of a template outside the language: found and expected; None if there is none."""
    from jinja2.nodes import Filter, For, Name, Test

    kind = type(node).__name__
    if kind not in _NODES:
        return f"{kind}, expected values, if and for alone"
    if isinstance(node, Filter) and (node.name not in FILTERS or node.node is None):
        return f"the filter {node.name}, expected {', '.join(FILTERS)}"
    if isinstance(node, Test) and node.name not in TESTS:
        return f"the test {node.name}, expected {', '.join(TESTS)}"
    if isinstance(node, Name) and (node.name.startswith("_") or node.name in TAKEN):
        return f"the name {node.name}, expected one of the case"
    is_loop = isinstance(node, For)
    expected = "{% for passage in context %}, over a list of the case, without another loop in it"
    return f"another loop, expected one as {expected}" if is_loop and not _is_plain(node) else None


def _is_plain(loop: Any) -> bool:
    """Whether a loop goes over a value that may be a list and contains no other loop."""
    from jinja2.nodes import For, Name

    is_plain = isinstance(loop.target, Name) and isinstance(loop.iter, Name) and loop.iter.name not in TEXTS
    return is_plain and not loop.recursive and loop.test is None and not [*loop.find_all(For)]
