"""The named variants, each as its source describes it."""

from models.config import CharacterConfig, ModelConfig, VariantConfig

BASELINE = VariantConfig("baseline")
"""The CS224n default project's starter: words only, S1·S2ᵀ·C attention, independent end pointer,
zero vectors for unknown words, a null token for "no answer", Adadelta 0.5, EMA warmed up."""

CHAR = VariantConfig(
    "char", model=ModelConfig(characters=CharacterConfig(), query_to_context="max")
)
"""The baseline with a character CNN beside the word vectors (Jagannath, CS224n report).
The report's equation for query-to-context is the paper's maximum; the starter's product,
which its code inherited, is contradicted by it. The equation is what was chosen."""

PRESETS = {preset.name: preset for preset in (BASELINE, CHAR)}


def preset(name: str) -> VariantConfig:
    """The preset of that name.

    Raises:
        ValueError: no preset has that name; the sentence lists those there are.
    """
    if name not in PRESETS:
        raise ValueError(f"There is no variant {name!r}; there are: {', '.join(PRESETS)}.")
    return PRESETS[name]
