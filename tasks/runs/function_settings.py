"""Permissions and limits of user functions.

The operator allows packages: by `--allow-functions`, in the environment, or in the user's settings file. gradebook.toml
in the working folder and a suites file may come from others: they can name fewer packages, never more.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.functions import STAND_INS, is_within
from gradebook.rubrics.model.methods import FunctionMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.text.named_files import read_whole
from gradebook.rubrics.text.plain_words import Place, describe, keys_of
from gradebook.tasks.system.operator_settings import FUNCTIONS, read_operator_settings

SETTINGS_FILE = "gradebook.toml"
MOST_BYTES = 1_000_000
PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
LINE_OF_A_FAULT = re.compile(r" \((?:at line (\d+), column \d+|at end of document)\)")

Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]


class FunctionSettings(BaseModel):
    """Packages whose functions may run, and limits of a call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: tuple[str, ...] = ()
    time_limit_s: Seconds = 60.0  # an import, or a vectorised call over a shard
    row_time_limit_s: Seconds = 10.0  # a call with one row
    memory_limit_mb: Annotated[int, Field(strict=True, ge=256, le=1_000_000)] = 1024  # a process

    @field_validator("allow")
    @classmethod
    def _allow_names_packages(cls, packages: tuple[str, ...]) -> tuple[str, ...]:
        for package in packages:
            if not PACKAGE.fullmatch(package):
                raise ValueError(f"found {package!r}, expected the name of a package, such as my_checks")
        return packages

    def allows(self, function: str) -> bool:
        """Whether the package of a function, as `module.path:name`, is allowed."""
        return is_within(function.partition(":")[0], self.allow)


class _SettingsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    functions: FunctionSettings = FunctionSettings()


def read_function_settings(
    folder: Path, environ: Mapping[str, str], allowed: Iterable[str] = (), within: Sequence[str] = ()
) -> FunctionSettings:
    """Packages that the operator allows, and the limits of the folder's gradebook.toml, if it exists.

    allowed: packages from the command line, separated by commas. within: packages of a suites file, beyond
    which none may run; none: no such bound, as with a gradebook.toml without `allow`. Raises `InputError`.
    """
    path = folder / SETTINGS_FILE
    settings = _read_file(path).functions if path.exists() else FunctionSettings()
    requested = _package_names(allowed, "--allow-functions")
    allow = list(dict.fromkeys([*requested, *_package_names(read_operator_settings(environ).functions, FUNCTIONS)]))
    bounds = [_package_names(within, "allow_functions")] if within else []
    if "allow" in settings.model_fields_set:
        bounds.append(list(settings.allow))
    for bound in bounds:
        allow = _narrow_packages(allow, bound)
    return settings.model_copy(update={"allow": tuple(allow)})


def _package_names(texts: Iterable[str], option: str) -> list[str]:
    """Names of packages in texts with commas between."""
    names = [name.strip() for text in texts for name in text.split(",")]
    for name in names:
        if not PACKAGE.fullmatch(name):
            raise InputError(option, repr(name), "names of packages separated by commas, such as my_checks")
    return names


def _narrow_packages(allow: list[str], bound: list[str]) -> list[str]:
    """Packages that lie in both lists: of a package and a part of it, the part."""
    inner_packages = [name for name in allow if is_within(name, bound)]
    return list(dict.fromkeys([*inner_packages, *(name for name in bound if is_within(name, allow))]))


def runnable_functions(rubric: Rubric, settings: FunctionSettings) -> dict[str, str]:
    """Allowed functions of a rubric, as `module.path:name`, by criterion id."""
    functions = {criterion.id: function_of(criterion) for criterion in rubric.criteria}
    return {criterion_id: name for criterion_id, name in functions.items() if name and settings.allows(name)}


def function_of(criterion: Criterion) -> str | None:
    """Function of a criterion, as `module.path:name`; None for another method."""
    return criterion.method.function if isinstance(criterion.method, FunctionMethod) else None


def refuse_other_functions(rubric: Rubric, settings: FunctionSettings) -> None:
    """Raise `RubricError` for functions of packages that are not allowed: a rubric must not choose code to run.

    Placeholders of imports name no code: their criteria stay unscored, as those of people without ratings do.
    """
    runnable = runnable_functions(rubric, settings)
    faults = tuple(
        Fault(rubric.id, None, f"{criterion.id}: {_not_allowed_words(name)}")
        for criterion in rubric.criteria
        if (name := function_of(criterion)) and criterion.id not in runnable and not _is_placeholder(name)
    )
    if faults:
        raise RubricError(faults)


def _is_placeholder(function: str) -> bool:
    return is_within(function.partition(":")[0], STAND_INS)


def _not_allowed_words(function: str) -> str:
    package = function.partition(":")[0].partition(".")[0]
    expected = f"--allow-functions {package}, or {FUNCTIONS}={package} in the environment"
    unscored = f"a suites file or {SETTINGS_FILE} can only name fewer; with --allow-unscored it stays unscored"
    return f"found the function {function}, whose package is not allowed, expected {expected}; {unscored}"


def _read_file(path: Path) -> _SettingsFile:
    try:
        text = read_whole(path, MOST_BYTES).decode("utf-8-sig")
        return _SettingsFile.model_validate(tomllib.loads(text))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path.name, f"can't be read ({error}), expected TOML") from None
    except ValidationError as error:
        faults = [_settings_fault(fault, path.name, text) for fault in error.errors(include_url=False)]
        raise InputError("\n".join(map(str, faults))) from None
    except (ValueError, RecursionError) as error:  # invalid TOML, or numbers or nesting beyond Python's limits
        located = LINE_OF_A_FAULT.search(str(error))
        line = int(located[1]) if located and located[1] else None
        location = path.name if line is None else f"{path.name}:{line}"
        raise InputError(location, f"no TOML ({LINE_OF_A_FAULT.sub('', str(error))})", "TOML") from None


def _settings_fault(fault: Any, name: str, text: str) -> Fault:
    place: Place = fault["loc"]
    keys = keys_of(_SettingsFile) if len(place) == 1 else keys_of(FunctionSettings)
    place, message = describe(fault, place, keys)
    return Fault(name, _line_of(place, text), message)


def _line_of(place: Place, text: str) -> int | None:
    """First line with a key; the TOML parser does not report lines."""
    keys = [part for part in place if isinstance(part, str)]
    begins = re.compile(rf"[ \t]*\[?[ \t]*[\"']?{re.escape(keys[-1])}[\"']?[ \t]*[=.\]]")
    return next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), None)
