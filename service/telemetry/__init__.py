"""Prometheus series, speculation records and the adapters that read them from an engine."""
