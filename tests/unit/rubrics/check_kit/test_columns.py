import pyarrow as pa
import pytest

from gradebook.rubrics.check_kit.columns import text_column


def test_a_column_of_one_chunk_is_not_copied():
    texts = pa.array(["one", "two"])
    assert text_column(pa.table({"output": texts}), "output").buffers()[2].address == texts.buffers()[2].address


@pytest.mark.parametrize("chunks", [[], [["one"], ["two", "three"]]])
def test_the_chunks_of_a_column_are_one_array(chunks):
    column = pa.chunked_array(chunks, pa.string())
    texts = text_column(pa.table({"output": column}), "output")
    assert isinstance(texts, pa.Array) and texts.to_pylist() == column.to_pylist()


def test_a_column_that_is_missing_is_an_error():
    with pytest.raises(KeyError):
        text_column(pa.table({"output": ["one"]}), "prompt")
