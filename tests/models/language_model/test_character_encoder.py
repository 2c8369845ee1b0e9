"""Words become ELMo's character ids, and vectors that do not depend on the rest of the batch."""

import torch

from models.language_model.character_encoder import CharacterEncoder
from models.language_model.characters import PADDING, WIDTH, border_ids, encode_words
from tests.factories.language_models import CONFIG


def test_ids_are_utf8_bytes_between_marks() -> None:
    ids = encode_words(["aé", "x" * 80])
    assert ids[0, :6].tolist() == [258, 97, 0xC3, 0xA9, 259, 260]
    assert (ids[0, 5:] == PADDING).all()
    assert ids[1].tolist() == [258, *[120] * 48, 259]
    assert border_ids()[:, :4].tolist() == [[258, 256, 259, 260], [258, 257, 259, 260]]
    assert ids.shape == (2, WIDTH)


def test_groups_by_length_change_no_vector() -> None:
    torch.manual_seed(0)
    encoder = CharacterEncoder(CONFIG)
    words = ["a", "short", "of-fourteen-or", "quite-a-long-word-of-many-bytes", "x" * 60, "it"]
    characters = torch.from_numpy(encode_words(words)).long()
    embedded = encoder.embedding(characters).transpose(1, 2)
    maxima = [convolution(embedded).amax(2) for convolution in encoder.convolutions]
    expected = encoder.projection(encoder.highway(torch.cat(maxima, 1).relu()))
    torch.testing.assert_close(encoder(characters), expected, atol=1e-6, rtol=0)
