"""Collection of outputs: each prompt of a dataset is sent to the model under evaluation and paid for once."""

import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa

from gradebook.rubrics.model.collecting import (
    COLLECTED,
    Messages,
    PromptRow,
    chat_digest,
    chat_of,
    collect_key,
    output_row,
)
from gradebook.rubrics.model.errors import (
    MOST_FAULTS,
    MOST_FAULTS_SHOWN,
    Fault,
    InputError,
    OutputsError,
    UnfinishedError,
)
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.media import with_files
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.reply_parser import MOST_REPLY_LENGTH, ReadReply, TokenChoices, clean_text
from gradebook.tasks.collecting.reply_store import ReplyFolder, StoredReplies, journal_cost_usd, refuse_other_format
from gradebook.tasks.datasets.discovery import dataset_files, dataset_folders, read_rows
from gradebook.tasks.datasets.file_formats import RawRow, encoding_of
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.datasets.row_parser import RowFitter, read_messages
from gradebook.tasks.judging.prices import find_price, refuse_unpriced
from gradebook.tasks.judging.replies.completion import MOST_NAME_LENGTH, Reply
from gradebook.tasks.judging.replies.question import Outcome, Request
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.files import EndpointSettings, read_endpoint
from gradebook.tasks.judging.settings.keys import read_keys, refuse_unpaired_keys
from gradebook.tasks.judging.transport.probe import probe
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.system.progress import reporter

COLLECT_CRITERION_ID = "(output)"  # in place of a criterion's id in the journal


@dataclass(frozen=True, slots=True)
class CollectAnswer:
    """Outcome of a question for an output; the text is in the journal. reason: why there is no output."""

    question: "CollectQuestion"
    reason: str | None
    request_count: int


@dataclass(frozen=True, slots=True)
class CollectQuestion:
    """One output to collect. messages: rendered when sent, as they may contain images."""

    case_id: str
    messages: Callable[[], Messages]
    prompt_digest: str
    request_key: str
    sample_index: int

    @property
    def output_id(self) -> str:
        """Id of the case, in place of an output's id in the journal."""
        return self.case_id

    @property
    def criterion_id(self) -> str:
        """Fixed text in place of a criterion's id in the journal."""
        return COLLECT_CRITERION_ID

    @property
    def replicate(self) -> int:
        """Sample index, added to the seed."""
        return self.sample_index

    @property
    def prefix(self) -> str:
        """Digest of the prompt, which all samples of a case share."""
        return self.prompt_digest

    def request(self) -> Request:
        """Request with the messages unchanged and without a reply format. Raises `UnreadableMedia`."""
        return Request(self.messages(), None, _read, note=_note)

    def answer(self, outcome: Outcome) -> CollectAnswer:
        """Outcome: whether the output is now available, or the reason why not."""
        return CollectAnswer(self, None if outcome.status == "scored" else outcome.reason, outcome.request_count)


def _read(
    _text: str | None, _finish_reason: str | None, _refusal: str | None, _choices: TokenChoices | None
) -> ReadReply:
    """Accept any text as the output, also a refusal or a cut text: both are to be evaluated."""
    return ReadReply("scored")


def _note(reply: Reply) -> dict[str, Any]:
    return {
        "finish_reason": None if reply.finish_reason is None else clean_text(reply.finish_reason, MOST_NAME_LENGTH),
        "is_refusal": bool(reply.refusal),
        "is_cut": len(reply.refusal or reply.text or "") > MOST_REPLY_LENGTH,
        "endpoint": reply.base_url,
    }


PROMPT_COLUMNS = ("case_id", "prompt")
# An earlier file of outputs is also a dataset of prompts.
_OUTPUT_ONLY_COLUMNS = (
    "model",
    "output",
    "checkpoint",
    "sample_index",
)
_UNREACHABLE_NAMES = {name: f"\0{name}" for name in _OUTPUT_ONLY_COLUMNS}  # names that no column of a file can have
_FITTED = {_UNREACHABLE_NAMES["model"]: "model", _UNREACHABLE_NAMES["output"]: ""}


class PromptRows:
    """Distinct cases of a dataset, each with the digest of its messages; on disk while they are asked."""

    def __init__(self, files: Sequence[Path], column_map: Mapping[str, str], system: str | None) -> None:
        """Read and check all rows. Raises `OutputsError` if a row, or an image it names, is invalid."""
        self._system = system
        self._media = MediaFiles(dataset_folders(files))
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._known: dict[bytes, bytes] = {}  # case -> digest of its content
        self._column_map = column_map
        renamed = {name: source for name, source in column_map.items() if name not in _OUTPUT_ONLY_COLUMNS}
        self._of_outputs = {column_map.get(name, name) for name in _OUTPUT_ONLY_COLUMNS} - set(renamed.values())
        self._fitter = RowFitter(renamed | _UNREACHABLE_NAMES, is_unscored_allowed=True)
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
            actual = f"found {fault_count} of {row_count} rows that do not fit" if row_count else "found no rows"
            raise OutputsError((Fault(str(files[0]), None, f"{actual}, expected prompts"), *faults))

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
        cached = self._known.get(case)
        if cached is None:
            self._known[case] = content
            self._spool.write(line)
        elif cached != content:
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


MOST_SAMPLES = 10_000  # per case
MOST_IN_FLIGHT = 4096  # as in a judge file
STAGE = "collect"
_RUN_ID = "collect"  # in place of a run's id in the journal


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """Request for a collection. endpoint: model name or endpoint file; model: value of the outputs' column, None: the
    endpoint's model.
    """

    prompts: str
    endpoint: str
    out: Path
    model: str | None = None
    checkpoint: str | None = None
    samples: int = 1
    budget_usd: float | None = None
    max_in_flight: int | None = None
    max_unanswered_rate: float = 0.0
    column_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collected:
    """Complete file of outputs. request_count, cost_usd: of this call alone; cost_usd is None if a price is unknown."""

    out: str
    journal: str
    model: str
    checkpoint: str | None
    case_count: int
    output_count: int
    unanswered_count: int
    kept_count: int  # outputs with an earlier reply
    request_count: int
    cost_usd: float | None
    endings: Mapping[str, int]  # finish_reason -> outputs
    refusal_count: int


@dataclass(slots=True)
class _Tally:
    """Counts of a call, and the reason for the first missing output."""

    kept_count: int = 0
    request_count: int = 0
    cost_usd: float | None = 0.0
    first_reason: str | None = None

    def take(self, answer: CollectAnswer) -> None:
        """Count one answer; called from the session's thread."""
        self.request_count += answer.request_count
        if answer.reason is not None and self.first_reason is None:
            question = answer.question
            self.first_reason = f"case {question.case_id!r}, sample {question.sample_index}: {answer.reason}"
        reporter().advance(STAGE, 1)


@dataclass(frozen=True, slots=True)
class _Collection:
    """Validated request, with the endpoint's settings and the prompts."""

    request: CollectRequest
    settings: EndpointSettings
    rows: PromptRows

    @property
    def model(self) -> str:
        return self.request.model or self.settings.model

    @property
    def sample_count(self) -> int:
        return len(self.rows) * self.request.samples

    def key(self, chat: str, sample_index: int) -> str:
        return collect_key(self.settings.digest, self.model, self.request.checkpoint, chat, sample_index)

    def questions(self, stored: StoredReplies) -> Iterator[CollectQuestion]:
        """Questions without a reply, in the order of the dataset."""
        for row, chat in self.rows:
            for sample_index in range(self.request.samples):
                key = self.key(chat, sample_index)
                if key not in stored:
                    messages = partial(self.rows.messages, row)
                    yield CollectQuestion(row.case_id, messages, chat, key, sample_index)

    @property
    def budget_name(self) -> str:
        """Name shared by all commands under one budget."""
        return digest_of(f"{self.settings.digest} {self.model} {self.request.checkpoint}")


def collect_outputs(request: CollectRequest) -> Collected:
    """Collect every missing output, then write the file of all outputs atomically.

    Raises `InputError` for an invalid request, before any request is sent. Raises `UnfinishedError` if outputs are
    missing: the replies are stored, the file is not written, and the same call asks for the missing outputs.
    """
    _refuse_bad(request)
    settings = read_endpoint(request.endpoint, os.environ)
    refuse_unpaired_keys(settings.asking, os.environ)
    if request.max_in_flight is not None:
        settings = settings.model_copy(update={"max_in_flight": request.max_in_flight})
    if request.budget_usd is not None:
        refuse_unpriced(settings.asking, find_price(settings.asking))
    files = dataset_files(request.prompts)
    if request.out.resolve() in {file.resolve() for file in files}:
        raise InputError(f"--out: found {request.out}, which is one of the prompts; expected another file")
    folder = ReplyFolder(request.out)
    folder.refuse_foreign()
    with PromptRows(files, request.column_map, settings.system) as rows, folder:
        return _collect(_Collection(request, settings, rows), folder)


def _collect(collection: _Collection, folder: ReplyFolder) -> Collected:
    tally = _ask(collection, folder)
    stored_replies = StoredReplies(folder.replies)
    try:
        return _write(collection, stored_replies, folder, tally)
    finally:
        stored_replies.close()


def _ask(collection: _Collection, folder: ReplyFolder) -> _Tally:
    """Send the questions without a reply. Raises `BudgetReached` or `EndpointUnavailable`."""
    stored_replies = StoredReplies(folder.replies)
    open_count = sum(1 for _ in collection.questions(stored_replies))
    tally = _Tally(collection.sample_count - open_count)
    if not open_count:
        return tally
    settings = collection.settings.asking
    probe(settings, read_keys(settings, os.environ))
    reporter().begin(STAGE, open_count)
    with open_session(
        settings,
        journal_folder=folder.replies,
        run_id=_RUN_ID,
        money=Money(collection.request.budget_usd, folder.budget_record(collection.budget_name)),
        price=find_price(settings),
    ) as session:
        session.ask(collection.questions(stored_replies), tally.take)
    reporter().end(STAGE)
    tally.cost_usd = journal_cost_usd(session.journal.path)
    return tally


def _write(collection: _Collection, stored: StoredReplies, folder: ReplyFolder, tally: _Tally) -> Collected:
    """Write the file in the order of the dataset, one row per case and sample with an output."""
    request = collection.request
    written_keys: set[str] = set()
    endings: Counter[str] = Counter()
    output_count = refusal_count = 0
    encoding = encoding_of(request.out)
    with (
        replaced_file(request.out) as temporary,
        pa.output_stream(str(temporary), compression=encoding.compression if encoding else None) as stream,
    ):
        for row, chat in collection.rows:
            for sample_index in range(request.samples):
                key = collection.key(chat, sample_index)
                reply = stored.find(key)
                if reply is None:
                    continue
                if key in written_keys:  # equal prompts share one reply, paid for once
                    reply |= {"is_shared": True, "cost_usd": reply["cost_usd"] and 0.0}
                written_keys.add(key)
                line = output_row(row, collection.model, request.checkpoint, sample_index, reply)
                stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                output_count += 1
                endings[reply.get("finish_reason") or "unknown"] += 1
                refusal_count += bool(reply.get("is_refusal"))
        _refuse_unanswered(collection, output_count, tally)
    return Collected(
        out=str(request.out),
        journal=str(folder.path),
        model=collection.model,
        checkpoint=request.checkpoint,
        case_count=len(collection.rows),
        output_count=output_count,
        unanswered_count=collection.sample_count - output_count,
        kept_count=tally.kept_count,
        request_count=tally.request_count,
        cost_usd=tally.cost_usd,
        endings=dict(endings),
        refusal_count=refusal_count,
    )


def _refuse_unanswered(collection: _Collection, output_count: int, tally: _Tally) -> None:
    """Raise `UnfinishedError` if too many outputs are missing, before the file is renamed into place."""
    wanted_count, rate = collection.sample_count, collection.request.max_unanswered_rate
    missing_count = wanted_count - output_count
    if missing_count and (not output_count or missing_count / wanted_count > rate):
        why = f"; the first: {tally.first_reason}" if tally.first_reason else ""
        raise UnfinishedError(
            f"{collection.request.out}: found no output for {missing_count} of {wanted_count} samples, expected at "
            f"most a share of {rate:g} (--max-unanswered-rate){why}; the replies that came are kept, and the same "
            "command asks for the others"
        )


def _refuse_bad(request: CollectRequest) -> None:
    """Raise `InputError` for values that are never valid."""
    refuse_other_format(request.out)
    if not 1 <= request.samples <= MOST_SAMPLES:
        raise InputError("--samples", f"{request.samples}", f"1 to {MOST_SAMPLES}")
    if not 0 <= request.max_unanswered_rate <= 1:
        raise InputError("--max-unanswered-rate", f"{request.max_unanswered_rate:g}", "a share of 0 to 1")
    if request.max_in_flight is not None and not 1 <= request.max_in_flight <= MOST_IN_FLIGHT:
        raise InputError("--max-in-flight", f"{request.max_in_flight}", f"1 to {MOST_IN_FLIGHT}")
    if request.budget_usd is not None and not 0 <= request.budget_usd < float("inf"):
        raise InputError("--budget-usd", f"{request.budget_usd:g}", "dollars, 0 or more")
    for option, name in (("--model", request.model), ("--checkpoint", request.checkpoint)):
        if name is not None and not (name and name.isprintable()):
            raise InputError(option, f"{name!r}", "a name without control characters")
