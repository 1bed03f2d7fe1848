"""Test doubles that several test packages share."""
