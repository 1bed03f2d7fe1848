"""What a pool serves (model, speculation, KV cache, runtime) and the SGLang command for it."""
