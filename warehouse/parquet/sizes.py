"""How large things are written and read: every number that trades memory, files and time, in one place each.

Tests hand in small ones to reach what takes gigabytes otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["ReadSizes", "WriteSizes"]

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSizes:
    """Of data files.  Larger row groups make scans faster; what a probe reads depends on pages."""

    row_group_bytes: int = _MIB  # a row group ends at the last key boundary before this size, or within a longer key
    long_key_bytes: int = 128 * _KIB  # in a batch, the records of a key that has this size are row groups alone
    settled_key_bytes: int = 512 * _KIB  # the same in what is seldom merged once more: loads and merges
    page_bytes: int = 32 * _KIB  # a page ends soon after this size: a probe reads a page, and each one costs a scan
    file_bytes: int = 128 * _MIB  # a run continues in another file at the first key boundary after this size
    buffer_bytes: int = 16 * _MIB  # rows wait for their row group in memory up to this size
    stripe_bytes: int = 128 * _MIB  # what a merge holds in memory at once, uncompressed
    wide_bytes: int = 64  # no statistics of wider values: they would make footers large and tell little
    in_process_bytes: int = (
        2048 * _MIB
    )  # a rewrite of more than this is a job of Spark: it takes longer than a JVM to start
    filtered_keys: int = 16  # row groups with fewer keys than this need no Bloom filter

    def settled(self) -> WriteSizes:
        """Return the sizes of files that are seldom merged once more."""
        return replace(self, long_key_bytes=self.settled_key_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSizes:
    """Of what one process reads at once and remembers."""

    first_bytes: int = 8 * _MIB  # what a probe reads at first; then twice as much each time, up to most_bytes
    most_bytes: int = 32 * _MIB
    share_bytes: int = 8 * _MIB  # what one thread of a probe reads at a time, or less if there are many threads
    scan_bytes: int = 4 * _MIB  # what one thread of a scan reads at a time
    least_bytes: int = 64 * _KIB  # what a row group counts for at least: a small one may be large when it is unpacked
    footer_chunks: int = 200_000  # footers are kept up to this many column chunks, each about a kilobyte
    few_chunks: int = 20_000  # or up to this many, by a reader that can do without
    known_bytes: int = 256 * _MIB  # the contents of files are kept up to this size: about a five-hundredth of the data
    narrow_bytes: int = 64 * _MIB  # narrow columns of row groups that were probed are kept up to this size
    page_bytes: int = 96 * _KIB  # about what a probe of a key reads of a row group that holds others too
