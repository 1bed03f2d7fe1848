"""Who may ask for what, how much, and in which order: keys, limits and the queue in front of the backends."""
