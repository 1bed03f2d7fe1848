"""The SGLang plugin: CPU operators and attention, the algorithm SPECSERVE, honest speculation reports.

SGLang loads `load` in each of its processes through the entry point `sglang.srt.plugins`. Nothing of SGLang's
files is edited; every replaced function is listed in `service.sglang_plugin.hooks`.
"""

from __future__ import annotations


def load() -> None:
    """Register hooks, the attention backend and the algorithm. Called by SGLang, once a process, before its start."""
    from service.sglang_plugin.hooks import register_all

    register_all()
