"""Errors, grouped by what a user has to do about them.

GradebookError
├── InputError            the command, a file or a setting is wrong: nothing was written (exit 2)
│   ├── RubricError
│   ├── OutputsError
│   ├── RatingsError
│   ├── SuitesError
│   ├── ExpectationsError
│   ├── JudgeSettingsError
│   ├── LakeError
│   └── QueryError
└── UnfinishedError       the run stopped early: judgments so far are saved (exit 3)
    ├── BudgetReached
    ├── EndpointUnavailable
    │   ├── MissingKey    no key is set for the judge's endpoint: nothing was sent (exit 2)
    │   └── RefusedSetting
    ├── LakeUnavailable
    ├── StorageUnavailable
    ├── QualityNotMet
    └── Unscored
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

MOST_FAULTS = 1_000  # faults of one file at which its reader stops
MOST_FAULTS_SHOWN = 20


class GradebookError(Exception):
    """Base of all expected failures; the text is one clear sentence, or one per fault."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of a file: its location, the value found and the value expected.

    rule: id of the rule under which `gradebook rubric lint` reports it.
    """

    path: str
    line: int | None
    message: str
    rule: str = "invalid"

    def __str__(self) -> str:
        location = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{location}: {self.message}"


class ModelFault(ValueError):
    """Fault that a model's validator found. rule: id of the lint rule; place: path of the field inside the model."""

    def __init__(self, rule: str, message: str, *place: str | int) -> None:
        super().__init__(rule, message, *place)  # args == parameters, so it pickles
        self.rule, self.message, self.place = rule, message, place

    def __str__(self) -> str:
        return ": ".join([*([".".join(map(str, self.place))] if self.place else ()), self.message])


class InputError(GradebookError):
    """The command, a file or a setting is wrong; nothing was written.

    place: option, file or field; without the other parts it is the whole message. found: the value, or a clause if
    `expected` is empty. expected: what is accepted instead. hint: next step for the reader.
    """

    exit_code = 2

    def __init__(self, place: str, found: str = "", expected: str = "", hint: str = "") -> None:
        super().__init__(place, found, expected, hint)  # args == parameters, so it pickles
        self.place, self.found, self.expected, self.hint = place, found, expected, hint

    @property
    def fault(self) -> str:
        """Message without its place and its hint."""
        return f"found {self.found}, expected {self.expected}" if self.expected else self.found or self.place

    def at(self, place: str, hint: str = "") -> Self:
        """Same fault for another option, with a hint for that option."""
        return type(self)(place, self.found or self.place, self.expected, hint)

    def __str__(self) -> str:
        message = f"{self.place}: {self.fault}" if self.found else self.place
        return f"{message}; {self.hint}" if self.hint else message


class _FaultsError(InputError):
    """All faults of a file."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        GradebookError.__init__(self, faults)  # args == parameters, so it pickles

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All faults, in file order."""
        faults: tuple[Fault, ...] = self.args[0]
        return faults

    def __str__(self) -> str:
        return show_faults(self.faults)


def show_faults(
    faults: Sequence[object], most: int = MOST_FAULTS_SHOWN, between: str = "\n", most_read: int = MOST_FAULTS
) -> str:
    """Text of the first faults with the count of the others; `and more` if the reader stopped at `most_read`."""
    text = between.join(str(fault) for fault in faults[:most])
    if len(faults) <= most:
        return text
    more = "more" if len(faults) >= most_read else f"{len(faults) - most} more"
    return f"{text}\n... and {more}" if between == "\n" else f"{text} and {more}"


class FaultList:
    """Faults of one file, at most `MOST_FAULTS`. error: makes one error of all faults."""

    def __init__(self, error: Callable[[tuple[Fault, ...]], InputError]) -> None:
        self._error = error
        self._faults: list[Fault] = []

    def add(self, faults: Iterable[Fault]) -> None:
        """Add faults. Raises the error once there are `MOST_FAULTS`."""
        self._faults += islice(faults, MOST_FAULTS - len(self._faults))
        if len(self._faults) == MOST_FAULTS:
            self.raise_any()

    def raise_any(self) -> None:
        """Raise the error if there is a fault."""
        if self._faults:
            raise self._error(tuple(self._faults))

    def __bool__(self) -> bool:
        return bool(self._faults)


class RubricError(_FaultsError):
    """A rubric file is invalid."""


class OutputsError(_FaultsError):
    """A file of model outputs cannot be read, or has too many invalid rows."""


class RatingsError(_FaultsError):
    """A file of ratings does not fit the rubric."""


class SuitesError(_FaultsError):
    """A suites file does not define a nightly run."""


class ExpectationsError(_FaultsError):
    """A file of expectation suites is invalid."""


class JudgeSettingsError(InputError):
    """A judge file, a recorded-replies file or the judge's environment is wrong."""


class LakeError(InputError):
    """The lake cannot be found, opened or written."""


class QueryError(InputError):
    """A user's SQL query is wrong or does more than read."""


class UnfinishedError(GradebookError):
    """The run stopped early; the same command continues it."""

    exit_code = 3


class BudgetReached(UnfinishedError):
    """The next request might have exceeded the budget, so it was not sent."""


class EndpointUnavailable(UnfinishedError):
    """The judge's endpoint refused the key or does not answer."""


class MissingKey(EndpointUnavailable):
    """No key is set for an endpoint that needs one, so nothing was sent to it."""

    exit_code = InputError.exit_code


class RefusedSetting(EndpointUnavailable):
    """The endpoint refuses the default value of a judge's setting, so no request was answered."""

    def __init__(self, base_url: str, model: str, setting: str, value: str, reason: str) -> None:
        super().__init__(base_url, model, setting, value, reason)

    def __str__(self) -> str:
        base_url, model, setting, value, reason = self.args
        return f"{base_url}: {model} refused the first request, {reason}; set `{setting}: {value}` in the judge file"


class LakeUnavailable(UnfinishedError):
    """The server of a lake's catalog does not answer, or another process has locked the catalog for minutes."""


class StorageUnavailable(UnfinishedError):
    """The object storage of a lake's files does not answer."""

    def __init__(self, place: str) -> None:
        super().__init__(place)  # args == parameters, so it pickles

    def __str__(self) -> str:
        return (
            f"{self.args[0]}: the storage does not answer, expected it at AWS_ENDPOINT_URL or at AWS; nothing was "
            "published, finished judgments are stored: run the same command again once it answers"
        )


class QualityNotMet(UnfinishedError):
    """A data-quality expectation of severity `error` failed, so nothing was published."""


class Unscored(UnfinishedError):
    """An output has no score, and the trainer can't take a missing score; gives the reasons of its criteria."""
