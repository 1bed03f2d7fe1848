"""Which memory is moved to huge pages, and that its contents stay."""

import sys

import pytest
import torch

from service.sglang_plugin.fast import hugepages

PAGE = 1 << 21


def test_regions_are_widened_and_merged():
    regions = [(5 * PAGE + 1, 10), (0, PAGE), (PAGE + 7, 1), (9 * PAGE - 1, 2), (3 * PAGE, 0)]
    expected = [(0, 2 * PAGE), (5 * PAGE, 6 * PAGE), (8 * PAGE, 10 * PAGE)]
    assert hugepages.aligned_ranges(regions, PAGE) == expected
    assert hugepages.aligned_ranges([], PAGE) == []


def test_disabled_or_unknown_says_why(tmp_path):
    assert "cannot be looked up" in str(hugepages.huge_page_size(tmp_path))
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    assert "disabled" in str(hugepages.huge_page_size(tmp_path))
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    (tmp_path / "hpage_pmd_size").write_text("2097152\n")
    expected = 2097152 if sys.platform == "linux" else "no transparent huge pages"
    assert hugepages.huge_page_size(tmp_path) == expected or str(expected) in str(hugepages.huge_page_size(tmp_path))


def test_contents_stay():
    tensor = torch.randn(3 << 20)
    kept = tensor.clone()
    result = hugepages.collapse([(tensor.data_ptr(), tensor.nbytes)])
    assert torch.equal(tensor, kept)
    assert 0 <= result.done <= result.asked
    assert (result.reason is None) == (result.asked > 0)


def test_nothing_is_done_where_it_is_impossible(monkeypatch):
    monkeypatch.setattr(hugepages, "huge_page_size", lambda: "none here")
    assert hugepages.collapse([(0, 10)]) == hugepages.Collapsed(0, 0, "none here")


@pytest.mark.parametrize("size", [1, PAGE, 5 * PAGE + 3])
def test_every_byte_is_covered(size):
    ((start, end),) = hugepages.aligned_ranges([(123, size)], PAGE)
    assert start <= 123 and end >= 123 + size
