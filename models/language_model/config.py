"""The sizes of a bidirectional language model, the presets, and the settings of a training."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args


@dataclass(frozen=True)
class BiLMConfig:
    """Sizes of the character CNN and of the LSTMs.

    Released models project the LSTM's output (`hidden_size` above `projection_size`) and clip cell
    and output. Models trained here do neither, because PyTorch's fast LSTM on CPUs can't.
    """

    filters: tuple[tuple[int, int], ...]  # (kernel width, number of filters)
    highways: int
    hidden_size: int
    projection_size: int  # of a word's vector and of each direction's output
    character_size: int = 16
    layers: int = 2
    cell_clip: float | None = None
    projection_clip: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the LSTMs have neither a projection nor clips."""
        clips = (self.cell_clip, self.projection_clip)
        return self.hidden_size == self.projection_size and clips == (None, None)

    @property
    def vector_size(self) -> int:
        """Size of a word's vector in each layer: both directions."""
        return 2 * self.projection_size

    @property
    def layers_shape(self) -> tuple[int, int]:
        """Number of layers, the words' own vectors included, and the vector size of each."""
        return 1 + self.layers, self.vector_size

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The config whose fields `to_dict` returned."""
        filters = tuple((width, count) for width, count in fields["filters"])
        return cls(**{**fields, "filters": filters})


def _own(filters: tuple[int, ...], highways: int, size: int) -> BiLMConfig:
    """A model to train here, with the given numbers of filters of the widths 1, 2, 3, …"""
    return BiLMConfig(tuple(enumerate(filters, 1)), highways, size, size)


PresetName = Literal["filters-128", "filters-512", "filters-2048"]
# filters-128 has the filters of the reference document's notebook, filters-2048 those of the
# released "small" model (Peters et al., 2018). The size of filters-512 is chosen so that two CPU
# cores train on 16 million words in less than three hours.
PRESETS: dict[PresetName, BiLMConfig] = {
    "filters-128": _own((2, 2, 4, 8, 16, 32, 64), 1, 128),
    "filters-512": _own((16, 16, 32, 64, 96, 128, 160), 1, 320),
    "filters-2048": _own((32, 32, 64, 128, 256, 512, 1024), 1, 512),
}
assert tuple(PRESETS) == get_args(PresetName)


@dataclass(frozen=True)
class LMTraining:
    """How a language model is trained."""

    epochs: int = 1
    max_words: int | None = None  # ends a training before all epochs
    tracks: int = 128
    steps: int = 20  # words of a window
    learning_rate: float = 2e-3
    dropout: float = 0.1
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0
