"""Model store, launcher and readiness of SGLang backends."""
