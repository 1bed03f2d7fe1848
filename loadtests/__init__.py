"""Load tests with Locust: users by traffic kind, open and closed loops, figures of latency and of speculation."""
