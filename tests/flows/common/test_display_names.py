"""Display names of compared items: distinct, and as short as possible."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.common.display_names import (
    distinct_names,
    names_of_data,
    names_of_vectors,
    require_unique,
)
from flows.common.parameters import (
    DataParameters,
    MixedSource,
    VectorParameters,
)
from infra.errors import UserError

PATHS = st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=4).map("/".join)
FIELDS = st.fixed_dictionaries(
    {
        "count": st.sampled_from([None, 1, 2]),
        "inner": st.fixed_dictionaries({"text": st.sampled_from([None, "None", "1"])}),
    }
)


DESCRIBED = st.lists(
    st.tuples(PATHS, FIELDS), max_size=8, unique_by=lambda item: json.dumps(item, sort_keys=True)
)


@given(DESCRIBED)
def test_names_are_distinct_and_as_short_as_possible(
    described: list[tuple[str, dict[str, object]]],
) -> None:
    names = distinct_names(described)
    assert len(set(names)) == len(described)
    paths = [path for path, _ in described]
    for name, path in zip(names, paths, strict=True):
        end, _, fields = name.partition(" (")
        assert f"/{path}".endswith(f"/{end}")
        assert bool(fields) == (paths.count(path) > 1)
        shorter = end.partition("/")[2]
        assert not shorter or any(f"/{p}".endswith(f"/{shorter}") for p in set(paths) - {path})


def test_vector_names_differ_by_folder_or_settings() -> None:
    files = [f".bidaflow/embeddings/{name}/vectors.parquet" for name in ("support", "legal")]
    sources = [VectorParameters(source=file) for file in (*files, "glove-6b-50d", "glove/v.txt")]
    assert names_of_vectors(sources) == [
        *("support", "legal"),
        *("glove-6b-50d", "v.txt"),
    ]
    same_name = [VectorParameters(source=f"{place}/own/vectors.parquet") for place in ("a", "b")]
    assert names_of_vectors(same_name) == ["a/own", "b/own"]
    trained = [
        VectorParameters(
            source="skipgram",
            corpus_files=["texts"],
            dimension=dimension,
        )
        for dimension in (50, 100)
    ]
    assert names_of_vectors(trained) == [
        "skipgram (dimension=50)",
        "skipgram (dimension=100)",
    ]


def test_dataset_names_differ_by_folder_or_settings() -> None:
    (name,) = names_of_data([DataParameters(dataset="2026/tickets.json")])
    assert name == "tickets"
    data = [
        DataParameters(dataset="2025/tickets.json"),
        DataParameters(dataset="2026/tickets.json"),
        DataParameters(dataset="2026/tickets.json", negatives=0.5),
        DataParameters(dataset="2026/tickets.json", mix=[MixedSource(files=["tiny"])]),
        DataParameters(dataset="squad-v1.1"),
    ]
    mix = "[{'files': ['tiny'], 'weight': 1.0}]"
    assert names_of_data(data) == [
        "2025/tickets",
        "2026/tickets (mix=[], negatives=0.0)",
        "2026/tickets (mix=[], negatives=0.5)",
        f"2026/tickets (mix={mix}, negatives=0.0)",
        "squad-v1.1",
    ]


def test_rejects_duplicate_entries() -> None:
    require_unique(seeds=[0, 1])
    twice = [VectorParameters(), VectorParameters(source="v.txt"), VectorParameters()]
    with pytest.raises(UserError, match="vectors contains duplicates"):
        require_unique(vectors=twice)


def test_names_of_data_mask_secrets() -> None:
    addresses = [f"https://me:hidden@{host}/may.json?token=hidden" for host in ("a", "b")]
    names = names_of_data([DataParameters(dataset=address) for address in addresses])
    assert len(set(names)) == 2 and "hidden" not in str(names)
