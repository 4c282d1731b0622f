"""What servers say about a model's window, in the forms in which they say it."""

from __future__ import annotations

from typing import Any

from support.tables import table

from everturn_gateway.providers.transport.windows import (
    configured_in,
    entry_of,
    loaded_in,
    served_in,
    slot_in,
    trained_in,
)

VLLM = {"object": "list", "data": [{"id": "qwen", "max_model_len": 32768}, {"id": "other"}]}
OPENROUTER = {
    "data": [
        {"id": "a/b", "context_length": 200000, "top_provider": {"context_length": 131072}},
        {"id": "a/b:free", "context_length": 65536, "top_provider": {"context_length": None}},
    ]
}
LLAMA = {"models": [], "data": [{"id": "/models/q.gguf", "meta": {"n_ctx_train": 40960}}]}
NEWER_LLAMA = {"data": [{"id": "q", "meta": {"n_ctx_train": 40960, "n_ctx": 8192}}]}
LM_STUDIO = {
    "data": [
        {"id": "loaded", "max_context_length": 131072, "loaded_context_length": 4096},
        {"id": "asleep", "max_context_length": 131072},
    ]
}
OLLAMA = {"models": [{"name": "gemma3:latest", "model": "gemma3:latest", "context_length": 4096}]}


@table(
    ("listing", "model", "served", "trained"),
    [
        (VLLM, "qwen", 32768, None),
        (VLLM, "other", None, None),
        (VLLM, "third", None, None),
        (OPENROUTER, "a/b", 131072, None),
        (OPENROUTER, "a/b:free", 65536, None),
        (OPENROUTER, "a/b:online", 131072, None),  # a variant that is not listed
        (LLAMA, "whatever", None, 40960),  # its only model
        (NEWER_LLAMA, "q", 8192, 40960),
        (LM_STUDIO, "loaded", 4096, 131072),
        (LM_STUDIO, "asleep", None, 131072),
        ([{"id": "m", "context_length": 8192}, {"id": "n"}], "m", 8192, None),
        ({"data": [{"id": "m", "context_window": 131072}]}, "m", 131072, None),
        ({"data": [{"id": "m", "max_model_len": True}]}, "m", None, None),
        ({"data": [{"id": "m", "max_model_len": "32768"}]}, "m", None, None),
        ({"data": [{"id": "m", "max_model_len": 0}]}, "m", None, None),
        ({"data": [{"id": "m", "meta": None}, 7]}, "m", None, None),
        ({"data": "none"}, "m", None, None),
        ({"error": "no"}, "m", None, None),
        ("text", "m", None, None),
        (None, "m", None, None),
    ],
)
def test_a_list_of_models_tells_the_window_of_one(
    listing: Any,
    model: str,
    served: int | None,
    trained: int | None,
) -> None:
    """Each server has names of its own for it; what is not there must not become a number."""
    entry = entry_of(listing, model)

    assert (served_in(entry), trained_in(entry)) == (served, trained)


@table(
    ("running", "model", "tokens"),
    [
        (OLLAMA, "gemma3", 4096),
        (OLLAMA, "gemma3:latest", 4096),
        (OLLAMA, "gemma3:27b", None),
        ({"models": []}, "gemma3", None),
        ({"models": [{"name": "gemma3"}]}, "gemma3", None),  # before Ollama 0.9
        (None, "gemma3", None),
    ],
)
def test_ollama_tells_with_what_a_model_is_loaded(
    running: object, model: str, tokens: int | None
) -> None:
    """Ollama cuts a longer prompt silently at its loaded window, not at the trained one."""
    assert loaded_in(running, model) == tokens


@table(
    ("shown", "tokens"),
    [
        ({"parameters": "temperature 0.7\nnum_ctx                        8192\nstop x"}, 8192),
        ({"parameters": "num_ctx 100"}, None),
        ({"parameters": "stop num_ctx_8192"}, None),
        ({"parameters": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_ollama_tells_what_the_file_of_a_model_sets(shown: object, tokens: int | None) -> None:
    """Where the model is not loaded, that is what it will be loaded with."""
    assert configured_in(shown) == tokens


@table(
    ("props", "tokens"),
    [
        ({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 4}, 4096),
        ({"n_ctx": 2048}, 2048),
        ({"default_generation_settings": {}}, None),
        ([], None),
    ],
)
def test_llama_cpp_tells_the_window_of_a_slot(props: object, tokens: int | None) -> None:
    """Its context is divided between slots; a request has one of them."""
    assert slot_in(props) == tokens
