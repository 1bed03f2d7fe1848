"""Built-in page selectors, one in each file."""
