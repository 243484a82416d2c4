"""Which functions of users may run, and under which limits: gradebook.toml and `--allow-functions`."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.functions import STAND_INS, is_within
from gradebook.rubrics.model.methods import FunctionMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.text.plain_words import Place, describe, keys_of

SETTINGS_FILE = "gradebook.toml"
PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
LINE_OF_A_FAULT = re.compile(r" \((?:at line (\d+), column \d+|at end of document)\)")

Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]


class FunctionSettings(BaseModel):
    """The packages whose functions may run, and what a call may take."""

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
        """Whether a function, as `module.path:name`, stands in a package that may run."""
        return is_within(function.partition(":")[0], self.allow)


class _SettingsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    functions: FunctionSettings = FunctionSettings()


def read_function_settings(folder: Path, allowed: Iterable[str] = ()) -> FunctionSettings:
    """The settings of the folder's gradebook.toml, where there is one, with more packages.

    allowed: packages as the command line names them, with commas between. Raises `InputError`.
    """
    path = folder / SETTINGS_FILE
    settings = _read_file(path).functions if path.exists() else FunctionSettings()
    named = [name.strip() for words in allowed for name in words.split(",")]
    for name in named:
        if not PACKAGE.fullmatch(name):
            message = f"found {name!r}, expected names of packages with commas between, such as my_checks"
            raise InputError(f"--allow-functions: {message}")
    return settings.model_copy(update={"allow": tuple(dict.fromkeys([*settings.allow, *named]))})


def runnable_functions(rubric: Rubric, settings: FunctionSettings) -> dict[str, str]:
    """The rubric's functions that may run: by the criterion's id, as `module.path:name`."""
    found = {criterion.id: function_of(criterion) for criterion in rubric.criteria}
    return {criterion_id: name for criterion_id, name in found.items() if name and settings.allows(name)}


def function_of(criterion: Criterion) -> str | None:
    """The function that a criterion names, as `module.path:name`; None for another method."""
    return criterion.method.function if isinstance(criterion.method, FunctionMethod) else None


def refuse_other_functions(rubric: Rubric, settings: FunctionSettings) -> None:
    """Raises `RubricError` for each function whose package may not run: a rubric alone never chooses code."""
    runnable = runnable_functions(rubric, settings)
    faults = tuple(
        Fault(rubric.id, None, f"{criterion.id}: {_not_allowed(name)}")
        for criterion in rubric.criteria
        if (name := function_of(criterion)) and criterion.id not in runnable
    )
    if faults:
        raise RubricError(faults)


def _not_allowed(function: str) -> str:
    module = function.partition(":")[0]
    unscored = "with --allow-unscored it stays unscored"
    if is_within(module, STAND_INS):
        return f"found the function {function}, a stand-in of an import, expected one that is there; {unscored}"
    package = module.partition(".")[0]
    expected = f'`allow = ["{package}"]` under [functions] in {SETTINGS_FILE}, or --allow-functions {package}'
    return f"found the function {function}, whose package is not allowed, expected {expected}; {unscored}"


def _read_file(path: Path) -> _SettingsFile:
    try:
        text = path.read_text(encoding="utf-8-sig")
        return _SettingsFile.model_validate(tomllib.loads(text))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name}: found what can't be read ({error}), expected TOML") from None
    except ValidationError as error:
        faults = [_fault(fault, path.name, text) for fault in error.errors(include_url=False)]
        raise InputError("\n".join(map(str, faults))) from None
    except (ValueError, RecursionError) as error:  # what is no TOML; a number, or a nesting, past Python's limits
        place = LINE_OF_A_FAULT.search(str(error))
        line = int(place[1]) if place and place[1] else None
        message = f"found no TOML ({LINE_OF_A_FAULT.sub('', str(error))}), expected TOML"
        raise InputError(str(Fault(path.name, line, message))) from None


def _fault(fault: Any, name: str, text: str) -> Fault:
    place: Place = fault["loc"]
    keys = keys_of(_SettingsFile) if len(place) == 1 else keys_of(FunctionSettings)
    place, message = describe(fault, place, keys)
    return Fault(name, _line_of(place, text), message)


def _line_of(place: Place, text: str) -> int | None:
    """The line where a key stands first; TOML's reader keeps no lines."""
    keys = [part for part in place if isinstance(part, str)]
    begins = re.compile(rf"[ \t]*\[?[ \t]*[\"']?{re.escape(keys[-1])}[\"']?[ \t]*[=.\]]")
    return next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), None)
