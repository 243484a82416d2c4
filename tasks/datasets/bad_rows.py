"""Bad rows of a dataset: counted, with the limit on their share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradebook.rubrics.model.columns import column_faults
from gradebook.rubrics.model.errors import MOST_FAULTS, MOST_FAULTS_SHOWN, Fault, FaultList, OutputsError
from gradebook.tasks.datasets.file_formats import RawRow, encoding_of

LEAST_ROW_BYTES = {"csv": 4, "jsonl": 20}  # no good row is shorter


@dataclass(slots=True)
class BadRows:
    """Counter of bad rows with the limit on their share."""

    files: Sequence[Path]
    max_bad_rate: float
    store: Callable[[RawRow, str], None]  # gets each bad row with its reason
    column_map: Mapping[str, str] | None = None  # of a dataset, whose rows may all lack a column
    count: int = 0
    byte_count: int = 0  # of the bad rows
    is_hopeless: bool = False  # the share of bad rows is above the limit, whatever follows
    faults: list[Fault] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)  # of the bad rows, in order of appearance

    def add(self, raw: RawRow, reason: str) -> None:
        self.count += 1
        self.byte_count += len(raw.text or "")
        self.store(raw, reason)
        if isinstance(raw.content, dict) and not raw.content.keys() <= self.columns.keys():
            self.columns.update(dict.fromkeys(raw.content))
        if len(self.faults) < MOST_FAULTS_SHOWN - 1:  # one line is for the summary
            self.faults.append(Fault(raw.source, raw.line, reason))
        if self.count % MOST_FAULTS == 0:
            self.is_hopeless = self._are_too_many()

    def raise_if_too_many(self, row_count: int) -> None:
        bad_count = self.count
        if bad_count < row_count and bad_count / row_count <= self.max_bad_rate:
            return
        source = str(self.files[0]) if self.files else "outputs"
        if bad_count == row_count and self.column_map is not None and self.columns:
            # Said of each row, a missing column would be a page of faults without the columns that there are.
            faults = FaultList(OutputsError)
            faults.add(column_faults(source, None, self.columns, self.column_map))
            faults.raise_any()
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        name = f"{source}{more}"
        first = "the first " if self.is_hopeless else ""
        found = f"found {bad_count} of {first}{row_count} rows that do not fit" if row_count else "found no rows"
        limit = f"expected at most a share of {self.max_bad_rate:g} (--max-bad-rate)"
        expected = limit if bad_count < row_count else "expected outputs"
        raise OutputsError((Fault(name, None, f"{found}, {expected}"), *self.faults))

    def _are_too_many(self) -> bool:
        """Whether the share is above the limit, even if the rest of the files were the shortest good rows.

        Unknown of packed files and Parquet, whose rows may take fewer.
        """
        encodings = [encoding_of(file) for file in self.files]
        if any(each is None or each.compression or each.format not in LEAST_ROW_BYTES for each in encodings):
            return False
        least = min(LEAST_ROW_BYTES[each.format] for each in encodings if each)
        rest = max(sum(file.stat().st_size for file in self.files) - self.byte_count, 0)
        return self.count / (self.count + rest / least) > self.max_bad_rate
