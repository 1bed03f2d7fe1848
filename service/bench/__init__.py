"""Measurements behind `specserve bench`."""
