"""Reads the released weights of ELMo: options.json and an HDF5 file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from infra.errors import UserError
from models.arrays import Float32Array
from models.language_model.bilm import BiLM
from models.language_model.characters import WIDTH
from models.language_model.config import BiLMConfig


def read_options(file: Path) -> BiLMConfig:
    """The config of a released model, from its options.json.

    Raises:
        UserError: the file can't be read, or describes a model of another kind.
    """
    try:
        options = json.loads(file.read_text(encoding="utf-8"))
        cnn, lstm = options["char_cnn"], options["lstm"]
        width = cnn["max_characters_per_token"]
        unsupported = cnn["activation"] != "relu" or not lstm["use_skip_connections"]
        config = BiLMConfig(
            filters=tuple((width, count) for width, count in cnn["filters"]),
            highways=cnn["n_highway"],
            hidden_size=lstm["dim"],
            projection_size=lstm["projection_dim"],
            character_size=cnn["embedding"]["dim"],
            layers=lstm["n_layers"],
            cell_clip=lstm.get("cell_clip"),  # without one, the original code does not clip
            projection_clip=lstm.get("proj_clip"),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{file} can't be read as the options of an ELMo model ({error!r}). Download the "
            "options.json that belongs to the weights."
        ) from error
    if unsupported:
        raise UserError(
            f"{file} describes a model without ReLU or without skip connections. Choose one of the "
            "released models Small, Medium, Original or Original 5.5B."
        )
    if width != WIDTH:
        raise UserError(
            f"{file} has max_characters_per_token {width}, but only models that read words of "
            f"{WIDTH} characters are supported. Choose another model."
        )
    if config.hidden_size <= config.projection_size:
        raise UserError(
            f"{file} has LSTMs without a projection (dim {config.hidden_size}, projection_dim "
            f"{config.projection_size}), which are not supported. Choose one whose dim is above "
            "its projection_dim."
        )
    return config


def load_released(options: Path, weights: Path) -> BiLM:
    """A released model, from its options.json and its HDF5 weights.

    Raises:
        UserError: a file can't be read, or the weights do not fit the options.
    """
    config = read_options(options)
    model = BiLM(config).eval()
    try:
        with h5py.File(weights) as file:
            model.load_state_dict(dict(_tensors(file, config)))
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"The weights {weights} can't be read, or belong to other options ({error}). Download "
            "the .hdf5 file and its options.json again."
        ) from error
    return model


def _tensors(file: Any, config: BiLMConfig) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the model's tensors by name. The file multiplies from the left (x @ W)."""

    def read(name: str) -> Float32Array:
        return np.asarray(file[name], np.float32)

    arrays = {"encoder.embedding.weight": read("char_embed")}
    for i in range(len(config.filters)):
        kernels = read(f"CNN/W_cnn_{i}")[0]  # (width, embedding, filters)
        arrays[f"encoder.convolutions.{i}.weight"] = kernels.transpose(2, 1, 0)
        arrays[f"encoder.convolutions.{i}.bias"] = read(f"CNN/b_cnn_{i}")
    for i in range(config.highways):
        for ours, theirs in (("transforms", "transform"), ("gates", "carry")):
            arrays[f"encoder.highway.{ours}.{i}.weight"] = read(f"CNN_high_{i}/W_{theirs}").T
            arrays[f"encoder.highway.{ours}.{i}.bias"] = read(f"CNN_high_{i}/b_{theirs}")
    arrays["encoder.projection.weight"] = read("CNN_proj/W_proj").T
    arrays["encoder.projection.bias"] = read("CNN_proj/b_proj")
    for direction, ours in enumerate(("ahead", "back")):
        for i in range(config.layers):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            inputs, recurrent = np.split(read(f"{cell}/W_0"), [config.projection_size])
            arrays[f"{ours}.layers.{i}.inputs.weight"] = inputs.T
            arrays[f"{ours}.layers.{i}.inputs.bias"] = read(f"{cell}/B")
            arrays[f"{ours}.layers.{i}.recurrent.weight"] = recurrent.T
            arrays[f"{ours}.layers.{i}.projection.weight"] = read(f"{cell}/W_P_0").T
    for name, array in arrays.items():
        yield name, torch.from_numpy(np.ascontiguousarray(array))
