"""The settings that the record of a language model's training holds."""

from pathlib import Path

import pytest

from infra.errors import UserError
from models.language_model.config import PRESETS, LMTraining
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.encode_corpus import EncodedCorpus
from tasks.training.language_model_worker import LanguageModelJob
from tasks.training.train_language_model import require_enough_words, used_settings
from tests.factories.language_models import CONFIG


def test_warm_start_records_the_sizes_of_its_model() -> None:
    parameters = EmbeddingParameters(method="elmo", seed=3)
    used = used_settings(parameters, None, PRESETS["filters-512"], 20)
    assert (used["elmo"]["preset"], used["min_count"], used["words"]) == ("filters-512", 5, 20)
    continued = used_settings(parameters, Path("bilm.safetensors"), CONFIG, 6)
    assert continued["sizes"] == CONFIG.to_dict() and continued["words"] == 6
    assert not {"preset", "vocabulary"} & continued["elmo"].keys() and "min_count" not in continued
    assert (continued["elmo"]["window"], continued["seed"]) == (20, 3)


def test_each_worker_needs_a_row_of_the_batch(tmp_path: Path) -> None:
    corpus, training = EncodedCorpus(tmp_path, tmp_path), LMTraining(tracks=1)
    job = LanguageModelJob(CONFIG, training, corpus, [], None, "", "")
    with pytest.raises(UserError, match=r"elmo\.batch_size is 1, but each of the 2 workers"):
        require_enough_words(job, 2)
