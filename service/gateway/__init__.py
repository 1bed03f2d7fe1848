"""One request: prepare, choose, open, relay, account."""
