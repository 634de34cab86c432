"""How large things are written and read: every number that trades memory, files and time, in one place each.

Tests hand in small ones to reach what takes gigabytes otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReadSizes", "WriteSizes"]

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSizes:
    """Of data files.  Larger row groups make scans faster and probes slower."""

    row_group_bytes: int = 512 * _KIB  # a row group ends at the last key boundary before this size
    least_row_group_bytes: int = 128 * _KIB  # or before this, in a small file; a key of this size has row groups alone
    row_groups_per_file: int = 64  # about as many row groups as a file has, between these sizes
    keys_per_row_group: int = 2  # of long keys: as many of them as have least_row_group_bytes together fill a row group
    key_row_group_bytes: int = _MIB  # the records of one key are cut into row groups of this size
    file_bytes: int = 128 * _MIB  # a run continues in another file at the first key boundary after this size
    buffer_bytes: int = 16 * _MIB  # rows wait for their row group in memory up to this size
    stripe_bytes: int = 256 * _MIB  # what a merge holds in memory at once, uncompressed
    wide_bytes: int = 64  # no statistics of wider values: they would make footers large and tell little
    in_process_bytes: int = 256 * _MIB  # a rewrite of more than this is a job of Spark
    filtered_keys: int = 16  # row groups with fewer keys than this need no Bloom filter


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
    filter_bytes: int = 64 * _MIB  # Bloom filters that were asked are kept up to this size
    stale_files: int = 64  # the blocks of files that are no longer live are forgotten once there are this many
