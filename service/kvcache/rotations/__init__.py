"""Rotations of keys and values before quantization. One file each, registered by name."""
