"""Cases of a dataset of prompts, read like outputs but without an output."""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson

from gradebook.rubrics.model.collecting import COLLECTED, PromptRow, chat_digest, chat_of
from gradebook.rubrics.model.errors import MOST_FAULTS, MOST_FAULTS_SHOWN, Fault, OutputsError
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt_files import with_files
from gradebook.tasks.datasets.discovery import dataset_folders, read_rows
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.datasets.row_parser import RowFitter, read_messages

PROMPT_COLUMNS = ("case_id", "prompt")
# An earlier file of outputs is also a dataset of prompts.
_OF_OUTPUTS = (
    "model",
    "output",
    "checkpoint",
    "sample_index",
)
_SET_ASIDE = {name: f"\0{name}" for name in _OF_OUTPUTS}  # names that no column of a file has
_FITTED = {_SET_ASIDE["model"]: "model", _SET_ASIDE["output"]: ""}


class PromptRows:
    """Distinct cases of a dataset, each with the digest of its messages; on disk while they are asked."""

    def __init__(self, files: Sequence[Path], column_map: Mapping[str, str], system: str | None) -> None:
        """Read and check all rows. Raises `OutputsError` if a row, or an image it names, is invalid."""
        self._system = system
        self._media = MediaFiles(dataset_folders(files))
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._known: dict[bytes, bytes] = {}  # case -> digest of its content
        self._column_map = column_map
        renamed = {name: found for name, found in column_map.items() if name not in _OF_OUTPUTS}
        self._of_outputs = {column_map.get(name, name) for name in _OF_OUTPUTS} - set(renamed.values())
        self._fitter = RowFitter(renamed | _SET_ASIDE, is_unscored_allowed=True)
        try:
            self._read(files)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[tuple[PromptRow, str]]:
        """Each case in the order of the dataset, with the digest of its messages. One iteration at a time."""
        self._spool.seek(0)
        for line in self._spool:
            digest, row = orjson.loads(line)
            yield PromptRow(**row), digest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._spool.close()

    def messages(self, row: PromptRow) -> list[dict[str, Any]]:
        """Messages of a case, with the images and sounds that it names. Raises `UnreadableMedia`."""
        chat = chat_of(row.prompt, self._system)
        return chat if isinstance(row.prompt, str) else with_files(chat, self._media.read)

    def _read(self, files: Sequence[Path]) -> None:
        row_count = fault_count = 0
        faults: list[Fault] = []
        for raw in read_rows(files, self._column_map, PROMPT_COLUMNS):
            row_count += 1
            reason = self._take(raw)
            if reason is not None:
                fault_count += 1
                if len(faults) < MOST_FAULTS_SHOWN - 1:  # the first line is the summary
                    faults.append(Fault(raw.source, raw.line, reason))
                if fault_count == MOST_FAULTS:
                    break
        if fault_count or not row_count:
            found = f"found {fault_count} of {row_count} rows that do not fit" if row_count else "found no rows"
            raise OutputsError((Fault(str(files[0]), None, f"{found}, expected prompts"), *faults))

    def _take(self, raw: RawRow) -> str | None:
        """Store the case of a row; returns the reason if it is invalid."""
        row = raw.content if isinstance(raw.content, str) else self._fit(raw, raw.content)
        if isinstance(row, str):
            return row
        try:
            line = orjson.dumps([chat_digest(self.messages(row)), row], option=orjson.OPT_APPEND_NEWLINE)
        except (UnreadableMedia, orjson.JSONEncodeError, RecursionError) as fault:
            return f"prompt: {fault}"
        case, content = _short(row.case_id.encode()), _short(line)
        known = self._known.get(case)
        if known is None:
            self._known[case] = content
            self._spool.write(line)
        elif known != content:
            return (
                f"case_id: found {row.case_id!r} on an earlier row too, with another content; expected each case once"
            )
        return None

    def _fit(self, raw: RawRow, content: dict[str, Any]) -> PromptRow | str:
        cell = content.get(self._column_map.get("prompt", "prompt"))
        is_chat = isinstance(cell if raw.format == "jsonl" else read_messages(cell), list)
        row = {name: value for name, value in content.items() if name not in self._of_outputs}
        fitted = self._fitter.fit(row | _FITTED, raw.format)
        if isinstance(fitted, str):
            return fitted
        if not fitted.prompt:
            return "prompt: found nothing, expected text or a list of chat messages, each an object with a role"
        metadata = None if fitted.metadata is None else orjson.loads(fitted.metadata)
        return PromptRow(
            fitted.case_id,
            orjson.loads(fitted.prompt) if is_chat else fitted.prompt,
            fitted.reference,
            fitted.context,
            metadata and {name: value for name, value in metadata.items() if name != COLLECTED},
            None if fitted.criteria is None else orjson.loads(fitted.criteria),
            fitted.cluster,
        )


def _short(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
