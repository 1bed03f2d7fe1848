"""specserve: an OpenAI-compatible inference gateway for SGLang with per-request speculation metrics."""

__version__ = "0.1.0"
