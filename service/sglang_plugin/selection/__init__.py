"""Decode steps that read some pages of a request's KV cache."""
