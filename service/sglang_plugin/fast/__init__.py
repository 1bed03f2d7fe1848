"""Fast CPU operator paths."""


def install() -> None:
    """Placeholder until the fast paths land."""
