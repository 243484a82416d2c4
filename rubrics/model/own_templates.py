"""Templates of one's own, by which a judge is shown a case: a small part of Jinja's language, without any code.

A template may name values, test whether they are there, and list the context's passages. It has no attributes, calls,
arithmetic or nested loops, so the length of what it gives is bounded by its own and the case's.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

MOST_TEMPLATE_LENGTH = 20_000
MOST_NAMES = 50  # places where values are shown
MOST_RENDERED_LENGTH = 4_000_000
FILTERS = ("default", "length", "lower", "upper", "trim", "first", "last")
TESTS = ("defined", "undefined", "none")
_SHOW = "show_value"  # function that writes a value
TAKEN = ("self", "loop", "caller", "varargs", "kwargs", _SHOW)  # names of the language's own
LIST = "context"  # the only value that may be looped over
_NODES = frozenset(
    "Template Output TemplateData Name Const If Not And Or Compare Operand Test Filter For CondExpr".split()  # noqa: SIM905
)


class TemplateFault(ValueError):
    """The template can't show a case; the message says what was found."""


def check_template(template: str) -> str:
    """Return the template. Raises `ValueError` for anything that is not in the small part of the language."""
    _compiled(template)
    return template


def render_template(template: str, values: Mapping[str, Any], show: Callable[[Any], str]) -> str:
    """Text of a template. show: writes a value so that it can't be taken for the template's own words.

    Raises `TemplateFault` for a value that is not there, and for a text that is too long.
    """
    from jinja2 import TemplateError, Undefined, UndefinedError

    def finalize(value: Any) -> str:
        if isinstance(value, Undefined):
            raise TemplateFault(f"the template names {value._undefined_name}, which the case has not")
        return show(value)

    try:
        text = str(_compiled(template).render({**values, _SHOW: finalize}))
    except UndefinedError as error:
        raise TemplateFault(f"the template asks for more than the case has: {str(error)[:100]}") from None
    except (TemplateError, TypeError, ValueError, RecursionError) as error:
        raise error if isinstance(error, TemplateFault) else TemplateFault("the template fails on this case") from None
    if len(text) > MOST_RENDERED_LENGTH:
        raise TemplateFault(f"the template gives {len(text):,} characters, at most {MOST_RENDERED_LENGTH:,} are shown")
    return text


@lru_cache(maxsize=256)
def _compiled(template: str) -> Any:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.nodes import Call, Name, Node, Output, TemplateData
    from jinja2.sandbox import SandboxedEnvironment

    if len(template) > MOST_TEMPLATE_LENGTH:
        raise ValueError(f"found a template of {len(template):,} characters, expected at most {MOST_TEMPLATE_LENGTH:,}")
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.globals.clear()
    try:
        parsed = environment.parse(template)
    except (TemplateError, RecursionError) as error:
        raise ValueError(f"found no template ({str(error)[:200]}), expected Jinja's {{{{ output }}}}") from None
    found = [*parsed.find_all(Node)]
    for node in found:
        if (fault := _fault_of(node)) is not None:
            raise ValueError(f"line {node.lineno}: found {fault}")
    if sum(isinstance(node, Name) for node in found) > MOST_NAMES:
        raise ValueError(f"found more than {MOST_NAMES} names, expected fewer")
    for output in parsed.find_all(Output):
        output.nodes = [
            each if isinstance(each, TemplateData) else Call(Name(_SHOW, "load"), [each], [], None, None)
            for each in output.nodes
        ]
    return environment.from_string(parsed)


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
    return f"another loop, expected {{% for passage in {LIST} %}} alone" if is_loop and not _is_plain(node) else None


def _is_plain(loop: Any) -> bool:
    """Whether it goes over the context's passages, and no loop is in it."""
    from jinja2.nodes import For, Name

    is_plain = isinstance(loop.target, Name) and isinstance(loop.iter, Name) and loop.iter.name == LIST
    return is_plain and not loop.recursive and loop.test is None and not [*loop.find_all(For)]
