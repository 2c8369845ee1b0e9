"""What an empty field of the form means: the value in the presets and in known datasets."""

from collections import defaultdict
from typing import Any

from models.configs.presets import PRESETS
from tasks.datasets.catalog import DATASETS, FEW_QUESTIONS, FOR_FEW_QUESTIONS


def preset_values(name: str) -> str:
    """The default of a field of a variant's model or training, as a sentence: the most common
    preset's value first, then those of other presets and of known datasets."""
    presets: dict[str, list[str]] = defaultdict(list)
    for variant in PRESETS.values():
        values = vars(variant.model) | vars(variant.training)
        presets[_shown(values[name])].append(variant.name)
    (common, _), *others = sorted(presets.items(), key=lambda item: -len(item[1]))
    exceptions = [f"{', '.join(names)}: {value}" for value, names in others]
    exceptions += [
        f"on {dataset.name}: {_shown(dataset.training[name])}"
        for dataset in DATASETS.values()
        if name in dataset.training
    ]
    if name in FOR_FEW_QUESTIONS:
        value = _shown(FOR_FEW_QUESTIONS[name])
        exceptions.append(f"on own data with fewer than {FEW_QUESTIONS:,} questions: {value}")
    return f"Default: {common} ({'; '.join(exceptions)})." if exceptions else f"Default: {common}."


def _shown(value: Any) -> str:
    if value is None:
        return "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
