"""The digest of a batch: one number for the same records, whichever way they come.

It is computed over Arrow, in Spark's tasks and in this process alike, from the values as the table's columns hold them:
neither the file format, nor how records are split over files and tasks, nor their order changes it. ``docs/format.md``
has the definition. In short: a value is a list of 64-bit words; the words are mixed with their places and summed up;
so are the values of a record with the places of their columns, and the records of a batch. Nulls add nothing, so a
column that is added later and null changes no digest.

Two 64-bit sums and the number of records, against accident and not against an adversary. About 1.5 GB/s on one core.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Digest", "record_hashes"]

_GAMMAS = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xD1B54A32D192ED03),
)  # 2^64 over the golden ratio, and over its twin
_MASK = 2**64 - 1
_RAW_PLACE = _MASK  # the place of the text of a record that could not be read: no column has it
_BLOCK_WORDS = 32 * 1024  # as much as the processor keeps close while it is mixed
_BATCH_RECORDS = 64 * 1024
_PADDING = [bytes([8 - rest]) * (8 - rest) for rest in range(8)]  # by length modulo 8


@dataclass(frozen=True, slots=True)
class Digest:
    """The sums over some records.  Digests of parts add up to that of the whole."""

    first: int = 0
    second: int = 0
    records: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            (self.first + other.first) & _MASK, (self.second + other.second) & _MASK, self.records + other.records
        )

    def __str__(self) -> str:
        return f"{self.first:016x}.{self.second:016x}.{self.records:x}"

    @staticmethod
    def of_hashes(first: Any, second: Any) -> Digest:
        """Return the digest of records from their hashes."""
        return Digest(int(np.add.reduce(first)), int(np.add.reduce(second)), len(first))

    @staticmethod
    def of_records(columns: pa.Table, raw: pa.ChunkedArray | None = None) -> Digest:
        """Return the digest of records: the table's columns, and the text of those that could not be read."""
        return Digest.of_hashes(*record_hashes(columns, raw))


def record_hashes(columns: pa.Table, raw: pa.ChunkedArray | None = None) -> tuple[Any, Any]:
    """Return two hashes of each record, as arrays of unsigned 64-bit numbers."""
    parts = [(place, columns.column(place)) for place in range(columns.num_columns)]
    if raw is not None and raw.null_count < len(raw):
        parts.append((_RAW_PLACE, raw))
    hashes = tuple(np.zeros(columns.num_rows, np.uint64) for _ in _GAMMAS)
    for place, column in parts:
        start = 0
        for array in _pieces(column):
            present = _present(array)
            for total, values, gamma in zip(hashes, _value_hashes(array), _GAMMAS, strict=True):
                mixed = _mix(values + np.uint64((place + 1) * int(gamma) & _MASK))
                total[start : start + len(array)] += mixed if present is None else mixed * present
            start += len(array)
    return _mix(hashes[0]), _mix(hashes[1])


def _pieces(column: pa.ChunkedArray) -> Iterable[pa.Array]:
    for chunk in column.chunks:
        for start in range(0, len(chunk), _BATCH_RECORDS):
            yield chunk.slice(start, _BATCH_RECORDS)


def _present(array: pa.Array) -> Any:
    """Return 1 for a value and 0 for a null; None if there are no nulls."""
    return pc.is_valid(array).to_numpy(zero_copy_only=False).astype(np.uint64) if array.null_count else None


def _mix(x: Any) -> Any:
    """Scatter the bits of each number, in place: the finalizer of SplitMix64, a bijection."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _value_hashes(array: pa.Array) -> tuple[Any, Any]:
    """Return two hashes of each value; those of nulls mean nothing."""
    kind = array.type
    if not len(array):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        return _value_hashes(array.cast(pa.list_(entry)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _uneven_sums(*_list_words(array))
    if pa.types.is_struct(kind):
        return _even_sums(np.stack([words for field in array.flatten() for words in _element_words(field)], axis=1))
    if pa.types.is_decimal(kind):
        whole = array.cast(pa.decimal128(kind.precision, kind.scale))
        stored = np.frombuffer(whole.buffers()[1], "<u8").reshape(-1, 2)
        return _even_sums(stored[whole.offset : whole.offset + len(whole)])
    if pa.types.is_floating(kind):
        return _even_sums(_float_words(array).reshape(-1, 1))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return _even_sums(_integer_words(array).reshape(-1, 1))
    return _uneven_sums(*_text_words(array))


def _integer_words(array: pa.Array) -> Any:
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return pc.fill_null(array.cast(pa.int64()), 0).to_numpy().view(np.uint64)


def _float_words(array: pa.Array) -> Any:
    """Return the bits of doubles; what is equal has equal bits, and every NaN the same."""
    numbers = pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy() + 0.0  # this turns -0.0 into 0.0
    return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)


def _text_words(array: pa.Array) -> tuple[Any, Any]:
    """Return the words of texts or binary values, padded to whole words, and where each value's words end."""
    values = array.cast(pa.large_binary())
    if values.null_count:
        values = pc.fill_null(values, b"")
    lengths = pc.binary_length(values).to_numpy()
    padding = pa.array(_PADDING, pa.large_binary()).take(pa.array(lengths & 7))
    padded = pc.binary_join_element_wise(values, padding, pa.scalar(b"", pa.large_binary()))
    return np.frombuffer(padded.buffers()[2], "<u8"), np.cumsum(lengths // 8 + 1)


def _list_words(array: pa.Array) -> tuple[Any, Any]:
    """Return each list's length and the hashes of its elements, and where each list's words end."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    ends = np.cumsum(2 * lengths + 1)
    starts = ends - (2 * lengths + 1)
    words = np.empty(int(ends[-1]) if len(ends) else 0, np.uint64)
    is_element = np.ones(len(words), np.bool_)
    is_element[starts] = False
    words[starts] = lengths.astype(np.uint64)
    words[is_element] = np.stack(_element_words(array.flatten()), axis=1).reshape(-1)
    return words, ends


def _element_words(array: pa.Array) -> tuple[Any, Any]:
    """Return the hashes of values inside others, where a null is two zeros."""
    first, second = _value_hashes(array)
    present = _present(array)
    return (first, second) if present is None else (first * present, second * present)


def _even_sums(words: Any) -> tuple[Any, Any]:
    """Return the sums over values that all have as many words: one row each."""
    places = np.arange(words.shape[1], dtype=np.uint64)
    mixed = _mix(words + places * _GAMMAS[0])
    if words.shape[1] == 1:
        return mixed[:, 0], mixed[:, 0]
    weights = places * np.uint64(2) + np.uint64(1)
    return np.add.reduce(mixed, axis=1), np.add.reduce(mixed * weights, axis=1)


def _uneven_sums(words: Any, ends: Any) -> tuple[Any, Any]:
    """Return the sums over values of different lengths, each at least one word."""
    starts = np.concatenate([[0], ends])[:-1]
    first, second = np.empty(len(ends), np.uint64), np.empty(len(ends), np.uint64)
    low = 0
    while low < len(ends):
        begin = starts[low]
        high = max(low + 1, int(np.searchsorted(ends, begin + _BLOCK_WORDS, "right")))
        some, cuts = slice(low, high), starts[low:high] - begin
        places = np.arange(ends[high - 1] - begin, dtype=np.uint64)
        places -= np.repeat(cuts.astype(np.uint64), ends[some] - starts[some])
        mixed = places * _GAMMAS[0]
        mixed += words[begin : ends[high - 1]]
        _mix(mixed)
        np.add.reduceat(mixed, cuts, out=first[some])
        places *= np.uint64(2)
        places += np.uint64(1)
        mixed *= places
        np.add.reduceat(mixed, cuts, out=second[some])
        low = high
    return first, second
