"""Tool calls as text: what the request's tools force the model to write, read from what it has written."""
