"""KV pools that hold packed integer codes."""
