"""What can go wrong, split by what a person has to do about it.

GradebookError
├── InputError            the command, a file or a setting is wrong: nothing was written (exit 2)
│   ├── RubricError
│   ├── OutputsError
│   ├── RatingsError
│   ├── SuitesError
│   ├── JudgeSettingsError
│   ├── LakeError
│   └── QueryError
└── UnfinishedError       the run stopped on its way: what was judged is kept (exit 3)
    ├── BudgetReached
    ├── EndpointUnavailable
    ├── LakeUnavailable
    ├── StorageUnavailable
    └── QualityNotMet
"""

from dataclasses import dataclass
from typing import Self

MOST_FAULTS_SHOWN = 20


class GradebookError(Exception):
    """Any failure that gradebook foresees; its text is one clear sentence, or one a fault."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a file: where it is, what was found, what was expected.

    rule: the id under which `gradebook rubric lint` reports it.
    """

    path: str
    line: int | None
    message: str
    rule: str = "invalid"

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"


class ModelFault(ValueError):
    """What a model's validator refuses, under the rule's id; pydantic keeps it in its error details."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(rule, message)
        self.rule = rule

    def __str__(self) -> str:
        message: str = self.args[1]
        return message


class InputError(GradebookError):
    """The command, a file or a setting is wrong; nothing was written.

    place: option, file or field; alone, it is the whole message. found: value that came, or a whole clause where
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
        """Same fault under the name of another option, with the hint that fits there."""
        return type(self)(place, self.found or self.place, self.expected, hint)

    def __str__(self) -> str:
        message = f"{self.place}: {self.fault}" if self.found else self.place
        return f"{message}; {self.hint}" if self.hint else message


class _FaultsError(InputError):
    """Every fault of a file at once."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        GradebookError.__init__(self, faults)  # args == parameters, so it pickles

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All faults, in the order of the file."""
        faults: tuple[Fault, ...] = self.args[0]
        return faults

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults[:MOST_FAULTS_SHOWN]]
        hidden_count = len(self.faults) - len(lines)
        return "\n".join([*lines, f"... and {hidden_count} more"] if hidden_count else lines)


class RubricError(_FaultsError):
    """A rubric file is not a rubric."""


class OutputsError(_FaultsError):
    """A file of model outputs can't be read, or too many of its rows do not fit."""


class RatingsError(_FaultsError):
    """A file of ratings does not fit the rubric."""


class SuitesError(_FaultsError):
    """A suites file does not say what a night evaluates."""


class JudgeSettingsError(InputError):
    """A judge file, a recorded-replies file or the judge's environment is wrong."""


class LakeError(InputError):
    """The lake can't be opened, written or found."""


class QueryError(InputError):
    """A SQL query of the user is wrong or does more than read."""


class UnfinishedError(GradebookError):
    """The run stopped before its end; the same command goes on where it stopped."""

    exit_code = 3


class BudgetReached(UnfinishedError):
    """The next request could have passed the budget, so it was not sent."""


class EndpointUnavailable(UnfinishedError):
    """The judge's endpoint refused the key or does not answer."""


class LakeUnavailable(UnfinishedError):
    """The server of a lake's catalog does not answer, or somebody holds the catalog for minutes."""


class StorageUnavailable(UnfinishedError):
    """The object storage of a lake's files does not answer."""

    def __init__(self, place: str) -> None:
        super().__init__(place)  # args == parameters, so it pickles

    def __str__(self) -> str:
        return (
            f"{self.args[0]}: the storage does not answer, expected it at AWS_ENDPOINT_URL or at AWS; nothing was "
            "published, what was judged is kept: run the same command again once it answers"
        )


class QualityNotMet(UnfinishedError):
    """A data-quality expectation of severity `error` failed, so nothing was published."""
