"""SGLang layers on packed weights: no second copy, overlooked readers fail loudly, updates of weights work."""

import pytest
import torch
from sglang.srt.layers.quantization.unquant import UnquantizedEmbeddingMethod, UnquantizedLinearMethod
from torch.nn import Parameter

from service.sglang_plugin.fast import embedding, linear, onednn, weights

pytestmark = pytest.mark.skipif(onednn.unavailable_reason() is not None, reason="no oneDNN operators")


def layer(method, size=(128, 64), dtype=torch.float32):
    module = torch.nn.Module()
    module.weight = Parameter(torch.randn(size).to(dtype), requires_grad=False)
    module.weight.weight_loader = "kept"
    module.quant_method = method
    return module


def packed_layer():
    module = layer(linear.PackedLinearMethod())
    dense = module.weight.data.clone()
    module.quant_method.process_weights_after_loading(module)
    return module, dense


@pytest.mark.parametrize("shape", [(1, 64), (9, 64), (2, 3, 64), (0, 64)])
def test_apply_equals_the_plain_layer(shape):
    module, dense = packed_layer()
    x, bias = torch.randn(shape), torch.randn(128)
    out = module.quant_method.apply(module, x, bias)
    torch.testing.assert_close(out, torch.nn.functional.linear(x, dense, bias), atol=1e-4, rtol=1e-5)


def test_the_other_entries_of_the_method():
    module, dense = packed_layer()
    x, addend = torch.randn(2, 64), torch.randn(2, 128)
    expected = x @ dense.t()
    out = module.quant_method.apply_into(module, x, torch.empty(2, 128))
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-5)
    out = module.quant_method.apply_with_addend(module, x, addend)
    torch.testing.assert_close(out, expected + addend, atol=1e-4, rtol=1e-5)


def test_no_second_copy_and_readers_get_nan():
    module, dense = packed_layer()
    assert module.weight.untyped_storage().nbytes() == 4
    assert module.weight.shape == dense.shape and module.weight.weight_loader == "kept"
    assert bool(torch.isnan(module.weight).all())
    with pytest.raises(RuntimeError, match="single memory location"):
        module.weight.data.copy_(dense)


def test_restore_and_reload_keep_the_packed_object_that_a_decoder_holds():
    module, dense = packed_layer()
    holder = linear.packed_weight(module)
    module.quant_method.restore_weights_before_loading(module)
    assert torch.equal(module.weight.data, dense) and linear.packed_weight(module) is None
    torch.testing.assert_close(module.quant_method.apply(module, dense[:2]), dense[:2] @ dense.t())
    module.weight.data.mul_(2)
    module.quant_method.process_weights_after_loading(module)
    module.quant_method.process_weights_after_loading(module)
    assert linear.packed_weight(module) is holder
    assert torch.equal(holder.unpack(), dense * 2)


@pytest.mark.parametrize("tied", [True, False])
def test_output_head_and_tied_embedding(tied):
    module = layer(embedding.PackedEmbeddingMethod(read_rows=tied), size=(2048, 64))
    dense, ids = module.weight.data.clone(), torch.tensor([0, 7, 2047])
    method = module.quant_method
    method.process_weights_after_loading(module)
    x = torch.randn(1, 64)
    torch.testing.assert_close(method.apply(module, x), x @ dense.t(), atol=1e-4, rtol=1e-5)
    if tied:
        assert torch.equal(method.embedding(module, ids), dense[ids])
    method.restore_weights_before_loading(module)
    assert torch.equal(module.weight.data, dense)
    assert torch.equal(method.embedding(module, ids), dense[ids])
    torch.testing.assert_close(method.apply(module, x), x @ dense.t(), atol=1e-4, rtol=1e-5)


def test_a_tied_table_stays_plain_when_its_layout_cannot_be_read(monkeypatch):
    monkeypatch.setattr(onednn.BlockedRows, "find", classmethod(lambda cls, packed: None))
    module = layer(embedding.PackedEmbeddingMethod(read_rows=True), size=(2048, 64))
    dense = module.weight.data.clone()
    module.quant_method.process_weights_after_loading(module)
    assert linear.packed_weight(module) is None and torch.equal(module.weight.data, dense)
    assert torch.equal(module.quant_method.embedding(module, torch.tensor([3])), dense[3:4])


def test_what_is_not_packed_says_why():
    assert linear.packable_reason(layer(UnquantizedLinearMethod())) is None
    assert "bfloat16" in str(linear.packable_reason(layer(UnquantizedLinearMethod(), dtype=torch.bfloat16)))
    assert "PackedLinearMethod" in str(linear.packable_reason(layer(linear.PackedLinearMethod())))
    assert embedding.packable_reason(layer(UnquantizedEmbeddingMethod())) is None
    bfloat16 = layer(UnquantizedEmbeddingMethod(), dtype=torch.bfloat16)
    assert "bfloat16" in str(embedding.packable_reason(bfloat16))


@pytest.mark.parametrize("fails", [False, True])
def test_readers_see_plain_weights_and_layers_are_packed_again(fails):
    module, dense = packed_layer()

    class Updater:
        def get_model(self):
            return module

    def update(owner, factor):
        assert torch.equal(owner.get_model().weight.data, dense)
        owner.get_model().weight.data.mul_(factor)
        if fails:
            raise RuntimeError("broken update")
        return "done"

    if fails:
        with pytest.raises(RuntimeError, match="broken update"):
            weights.with_plain_weights(update, Updater(), 3)
    else:
        assert weights.with_plain_weights(update, Updater(), factor=3) == "done"
    packed = linear.packed_weight(module)
    assert packed is not None and torch.equal(packed.unpack(), dense * 3)


def test_every_hooked_target_exists():
    import pkgutil

    for target in weights.TARGETS:
        assert callable(pkgutil.resolve_name(target)), target
