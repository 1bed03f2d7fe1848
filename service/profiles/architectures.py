"""Which model classes SGLang 0.5.23 can pair with which algorithm, by their names in config.json.

Taken from the classes in its `models` folder (methods `set_*_layers_to_capture`, inherited ones included), from
`configs/model_config.py` (classes that it renames for the draft) and from `arg_groups/overrides.py` and
`arg_groups/model_overrides` (several layers of heads). A test compares them with an installed SGLang.
"""

from __future__ import annotations

SHOW_EAGLE3_LAYERS = frozenset(
    """
    ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM
    Cosmos3ForConditionalGeneration DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM
    ExaoneMoEForCausalLM ExaoneMoeForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM
    Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration Glm4MoeForCausalLM Glm4MoeLiteForCausalLM
    Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM GptOssForCausalLM IQuestCoderForCausalLM
    InternLM3ForCausalLM InternS1ProForConditionalGeneration InternS2MobiusForConditionalGeneration
    InternS2PreviewForConditionalGeneration KimiK25ForConditionalGeneration Llama4ForCausalLM
    Llama4ForConditionalGeneration LlamaForCausalLM LongcatFlashForCausalLM MellumForCausalLM MindSporeForCausalLM
    MiniMaxM2ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration Ministral3ForCausalLM
    MistralForCausalLM MistralLarge3ForCausalLM Phi3ForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM
    Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM
    Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForCausalLM
    Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration
    Qwen4ExpForConditionalGeneration SarvamMoEForCausalLM TeleFLMForCausalLM
    """.split()
)
"""Targets that give EAGLE3 drafts the hidden states of inner layers."""
SHOW_DFLASH_LAYERS = frozenset(
    """
    BeamForCausalLM Cosmos3ForConditionalGeneration DeepseekV2ForCausalLM DeepseekV32ForCausalLM
    DeepseekV3ForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration
    Glm4MoeLiteForCausalLM Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM GptOssForCausalLM
    IQuestCoderForCausalLM InklingForConditionalGeneration InternLM3ForCausalLM InternS1ProForConditionalGeneration
    InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration KimiK25ForConditionalGeneration
    KimiK3ForConditionalGeneration KimiK3LinearForCausalLM LagunaForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM
    Lfm2VlForConditionalGeneration Llama4ForCausalLM LlamaForCausalLM MellumForCausalLM MiMoV2FlashForCausalLM
    MiMoV2ForCausalLM MiniMaxM3SparseForConditionalGeneration Ministral3ForCausalLM MistralForCausalLM
    MistralLarge3ForCausalLM MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration
    MuseSparkForConditionalGeneration NanbeigeForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM
    NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 Phi3ForCausalLM
    Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration
    Qwen3VLMoeForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM
    Qwen3_5MoeForConditionalGeneration Qwen4ExpForConditionalGeneration TeleFLMForCausalLM
    """.split()
)
"""Targets that give them to DFLASH, and to DSPARK."""
SHOW_DSPARK_LAYERS = frozenset(
    """
    BailingMoeV3ForCausalLM DeepseekV4ForCausalLM KimiK3ForConditionalGeneration KimiK3LinearForCausalLM
    KimiLinearForCausalLM MiniMaxM3SparseForConditionalGeneration
    """.split()
)
"""Targets that give them to DSPARK in a way of its own."""
HAVE_OWN_HEADS = frozenset(
    """
    BailingMoeForCausalLM BailingMoeV2ForCausalLM BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM
    DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV4ForCausalLM Dots3NoteForCausalLM Ernie4_5_MoeForCausalLM
    ExaoneMoEForCausalLM ExaoneMoeForCausalLM GigaChat35ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM
    Glm5NextForConditionalGeneration GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration HYV3ForCausalLM
    HYV4ForCausalLM InklingForConditionalGeneration InternS2MobiusForConditionalGeneration
    InternS2PreviewForConditionalGeneration LongcatFlashForCausalLM MiMoForCausalLM MiMoV2FlashForCausalLM
    MiMoV2ForCausalLM MistralLarge3ForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM
    NemotronH_Omni_Reasoning_V3 PixtralForConditionalGeneration Qwen3MoeForCausalLM Qwen3NextForCausalLM
    Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration
    Qwen4ExpForConditionalGeneration Step3p5ForCausalLM Step3p7ForConditionalGeneration
    """.split()
)
"""Targets whose checkpoints can hold multi-token-prediction heads."""
HAVE_SEVERAL_HEAD_LAYERS = frozenset(
    """
    GigaChat35ForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM Step3p5ForCausalLM Step3p7ForConditionalGeneration
    """.split()
)
"""Targets with several layers of heads, for which SGLang sets `--enable-multi-layer-eagle`."""

_FROZEN_KV = ("Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM")
_BLOCKS = ("MuseGlimmerAssistantModel",)


def draft_kind(architecture: str) -> str:
    """What a draft's class is for: frozen_kv_mtp, dspark, dflash, eagle3, eagle, heads, or model for any other."""
    if architecture in _FROZEN_KV:
        return "frozen_kv_mtp"
    if "DSpark" in architecture:
        return "dspark"
    if "DFlash" in architecture or architecture in _BLOCKS:
        return "dflash"
    if "Eagle3" in architecture:
        return "eagle3"
    if "Eagle" in architecture:
        return "eagle"
    return "heads" if architecture.endswith(("NextN", "MTP")) else "model"
