"""Pure-torch versions of the `sgl_kernel` operators that SGLang calls on a CPU. They import no sglang."""
