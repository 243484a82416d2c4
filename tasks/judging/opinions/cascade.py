"""Votes of a cascade's second judge that are needed, as far as the first judge's votes are known."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.tasks.judging.opinions.rows import OpinionRows, first_judge_unsure, opinion_rows, rows_of, table_keys
from gradebook.tasks.judging.settings.panels import FIRST, THEN, CascadeSettings, Judge, wanted_opinions


def foresee_needed(judge: Judge, planned: pa.Table) -> pa.Array:
    """Whether each row of a plan file will be needed: (row,). For the second judge of a cascade, the first judge's rows
    decide.

    Null while the first judge is still to be asked.
    """
    is_second = pc.equal(planned.column("judge_index"), THEN).combine_chunks()
    needed = pa.repeat(True, planned.num_rows)
    if not isinstance(judge, CascadeSettings) or not pc.any(is_second).as_py():
        return needed
    keys = table_keys(planned.filter(is_second))
    opinions = [one for one in wanted_opinions(judge) if one.judge_index == FIRST and not one.is_swapped]
    rows = {opinion: opinion_rows(keys, rows_of(planned, opinion), None) for opinion in opinions}
    is_open = [
        pc.and_(table.column("request_key").is_valid(), table.column("status").is_null()).to_numpy()
        for table in rows.values()
    ]
    is_unsure = pa.array(first_judge_unsure(judge, rows), mask=np.any(is_open, axis=0))
    return pc.replace_with_mask(needed, is_second, is_unsure)


def used_rows(judge: Judge, rows: OpinionRows) -> OpinionRows:
    """Rows that a run used; the second judge of a cascade counts only where the first is unsure, even if more is
    stored.
    """
    if not isinstance(judge, CascadeSettings):
        return rows
    is_unsure = pa.array(first_judge_unsure(judge, rows))
    return {
        opinion: table.filter(is_unsure) if opinion.judge_index == THEN else table for opinion, table in rows.items()
    }
