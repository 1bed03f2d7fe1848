"""Pure ASGI middleware; each passes scopes that are not HTTP straight on."""
