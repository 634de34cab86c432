"""What Ebb needs is pinned with hashes, in the versions that it is tested with (P31)."""

from __future__ import annotations

from tests.hashes import needed, pinned, read_hashes


def test_everything_that_ebb_needs_is_pinned_with_hashes() -> None:
    versions, hashes = pinned(), read_hashes()

    assert needed() <= hashes.keys(), "run make hashes"
    assert {name: version for name, (version, _) in hashes.items()} == {name: versions[name] for name in hashes}
    assert all(sums for _, sums in hashes.values())
    assert len(hashes["pyarrow"][1]) > 10, "those of all platforms"
