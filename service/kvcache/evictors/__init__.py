"""Built-in eviction policies, one in each file."""
