"""Drafting and acceptance, free of any engine: pure Python and torch."""
