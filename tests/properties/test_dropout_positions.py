"""The positions of each form of dropout in whole models."""

import numpy as np
import pytest
from torch import Tensor, nn

from models.batching import make_batch
from models.configs.presets import PRESETS
from models.modules.attention import TrilinearSimilarity
from models.modules.layers import Dropout, VariationalDropout
from models.modules.rnn import BidirectionalRNN
from tests.factories.models import make_examples, make_model, make_types, small

READERS = (nn.Conv1d, nn.Linear, BidirectionalRNN, TrilinearSimilarity)

# The CS224n starter: on the embeddings, the inputs of the similarity, and after recurrent layers.
OUTPUTS = {
    "words.projection",
    "attention.similarity",
    "modeling.layers.1",
    "output.encoder.layers.0",  # reads M
    "output.start_modeling",
    "output.end_modeling",
}
# Seo et al., 2017, section 4: before the CNN, the LSTMs and the last linear layers.
INPUTS = {
    "words.characters.convolutions.0",
    "encoder.layers.0",
    "modeling.layers.0",
    "modeling.layers.1",
    "output.encoder.layers.0",
    "output.start_attention",
    "output.start_modeling",
    "output.end_attention",
    "output.end_modeling",
}
# Clark & Gardner's code: before the CNN, around recurrent layers, and before the output layer.
VARIATIONAL = {
    "words.characters.convolutions.0",
    "encoder.layers.0",
    "attention.similarity",
    "modeling.encoder.layers.0",
    "modeling.similarity",
    "output.start_encoder",
}


MATCHING = {*OUTPUTS, "modeling.layers.0"}  # the input is the output of the matching BiLSTM
PLACES = {
    "baseline": OUTPUTS,
    "char": OUTPUTS,
    "char-selfattn": MATCHING,
    "char-selfattn-dot": MATCHING,
    # The attention inputs of the output layer also come from the matching BiLSTM.
    "char-selfattn-v1": {*MATCHING, "output.start_attention", "output.end_attention"},
    "seo2016": INPUTS,
    "char-only": INPUTS,
    "kim-char": {*INPUTS, *(f"words.characters.convolutions.{i}" for i in range(6))},
    "docqa": VARIATIONAL,
    "elmo": INPUTS,
    "char-elmo": OUTPUTS,  # the contextual vectors have a dropout of their own
}


@pytest.mark.parametrize("name", PRESETS)
def test_dropout_feeds_the_expected_layers(name: str) -> None:
    """The expected layers read the output of a dropout directly, in every call."""
    model = make_model(small(name, dropout=0.5)).train()
    dropped: list[Tensor] = []
    reads_dropout: dict[str, bool] = {}

    def record_output(module: nn.Module, _: object, out: Tensor) -> None:
        dropped.append(out)

    def check_inputs(place: str, inputs: tuple[Tensor, ...]) -> None:
        storages = {x.untyped_storage().data_ptr() for x in dropped}
        read = [x for x in inputs if isinstance(x, Tensor) and x.is_floating_point()]
        is_dropped = all(x.untyped_storage().data_ptr() in storages for x in read)
        reads_dropout[place] = reads_dropout.get(place, True) and is_dropped

    for place, module in model.named_modules():
        if isinstance(module, Dropout | VariationalDropout):
            module.register_forward_hook(record_output)
        elif isinstance(module, READERS):
            module.register_forward_pre_hook(
                lambda _, inputs, place=place: check_inputs(place, inputs)
            )
    model(make_batch(make_examples([9, 7], [5, 4]), make_types(), np.array([0, 1]), 8))
    assert {place for place, is_dropped in reads_dropout.items() if is_dropped} == PLACES[name]
