"""KV-cache compression without an engine: torch only, and names are listed without it."""
