"""Names under which the plugin reports per output token in SGLang's `meta_info`. Imports nothing."""

from __future__ import annotations

HELD_KEY = "specserve_kv_held"
"""How many tokens the request's KV cache held at its end, the same number for each token; absent when all were."""
LOGPROB_KEY = "specserve_forced_logprob"
"""Natural log-probability of each token that was forced; see `teacher`."""
BEST_KEY = "specserve_forced_best"
"""1 where the forced token was the model's own greedy choice, else 0."""
TEACHER_VARIABLE = "SPECSERVE_TEACHER"
"""Set to 1, an engine lets requests force their tokens."""
