"""Weights on huge pages: a step reads all of them once, and with 4 KiB pages a seventh of it goes into page walks.

oneDNN allocates packed weights itself, so the kernel is asked afterwards to gather their memory into huge pages.
Linux only; where it is impossible nothing changes but the speed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
MADV_HUGEPAGE = 14
MADV_COLLAPSE = 25
"""Since Linux 6.1. Older kernels refuse it, and gather the pages in the background within minutes."""


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Bytes that were asked for and bytes that lie on huge pages now; `reason` when nothing could be asked."""

    asked: int
    done: int
    reason: str | None = None


def huge_page_size(settings: Path = SETTINGS) -> int | str:
    """Bytes of a huge page, or in words why there are none. Reads two files."""
    if sys.platform != "linux":
        return f"no transparent huge pages on {sys.platform}"
    try:
        if "[never]" in (settings / "enabled").read_text():
            return "transparent huge pages are disabled (never)"
        return int((settings / "hpage_pmd_size").read_text())
    except OSError as error:
        return f"transparent huge pages cannot be looked up: {error}"


def aligned_ranges(regions: Iterable[tuple[int, int]], page: int) -> list[tuple[int, int]]:
    """Regions (address, bytes) widened to whole pages and merged, as sorted (start, end)."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted((a // page * page, -(-(a + size) // page) * page) for a, size in regions if size):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def collapse(regions: Iterable[tuple[int, int]]) -> Collapsed:
    """Gather the memory of `regions` (address, bytes) into huge pages. Blocks: about 2.5 s a gigabyte.

    Regions are widened to whole huge pages: the advice changes no contents, and weights that lie side by side
    would otherwise leave most of their edges on small pages. Never raises; blocks that the kernel refuses stay.
    """
    page = huge_page_size()
    if isinstance(page, str):
        return Collapsed(0, 0, page)
    ranges = aligned_ranges(regions, page)
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in ranges:
        madvise(start, end - start, MADV_HUGEPAGE)
    done = 0
    for start, end in ranges:
        done += sum(page for at in range(start, end, page) if madvise(at, page, MADV_COLLAPSE) == 0)
    return Collapsed(sum(end - start for start, end in ranges), done)
