"""Anthropic's Messages API as a translation to and from chat completions."""
