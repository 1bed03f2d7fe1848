"""Models that drafters run: loading, KV rows, batched passes, chains of draft tokens."""
