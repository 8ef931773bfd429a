"""The embedded server against transformers' own generation, and its lower precisions against fp32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from material import fixed, inference, measured, quiet, spec_of, training
from twinlens.reporting.wording.finding import sentence_of
from twinlens.testing.schedules import TimedRequests

torch = pytest.importorskip("torch", reason="needs the torch extra")
from torch import nn  # noqa: E402

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.in_process.player import refuse_uneven  # noqa: E402
from twinlens.executors.launch.model_folder import servable  # noqa: E402
from twinlens.executors.torch.infer import Generation, TorchServer  # noqa: E402
from twinlens.executors.torch.model.quantize import Int4WeightLinear, Int8WeightLinear  # noqa: E402
from twinlens.measurement.facts.predicted_work import theory_of  # noqa: E402
from twinlens.record.executor.facts import Facts  # noqa: E402
from twinlens.record.request import Request  # noqa: E402
from twinlens.schedule.request import ScheduledRequest  # noqa: E402
from twinlens.spec.model.any_model import any_model  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.stats.metrics.fidelity import fidelity  # noqa: E402
from twinlens.theory.flop import decode_flop, forward_flop, parameters  # noqa: E402

pytestmark = pytest.mark.torch


def opened(**parts: Any) -> tuple[TorchServer, Facts]:
    server = TorchServer()
    return server, server.open(spec_of(inference(**parts)), quiet)


def answer(server: TorchServer, length: int = 16, tokens: int = 6) -> list[list[int]]:
    """The tokens themselves, by the calls that `play` makes."""
    generation = server.generation
    assert isinstance(generation, Generation)
    prompts = server.prompts.batch([(1, i) for i in range(server.spec.point.batch)], length)
    with generation.no_grad():
        generation.cache.reset()
        said = [generation.prefill(prompts)]
        for position in range(length, length + tokens - 1):
            said.append(generation.decode(said[-1], torch.full_like(said[-1], position)))
    return torch.cat(said, dim=1).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_generation_with_the_static_cache_is_that_of_transformers(precision: str) -> None:
    server, _ = opened(point={"precision": precision, "batch": 2}, options={"layout": "row"})
    prompts = server.prompts.batch([(1, 0), (1, 1)], 16)
    with torch.inference_mode():
        whole = server.model.generate(
            prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=6, do_sample=False,
            eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
    ours = answer(server)
    assert ours == whole[:, 16:].tolist()
    assert answer(server) == ours, "a cache that is reset holds nothing of the last answer"
    assert answer(server, length=9, tokens=4) == [row[:4] for row in answer(server, length=9, tokens=6)]


def test_weights_stored_by_columns_give_the_same_tokens() -> None:
    by_row, by_column = (opened(options={"layout": layout})[0] for layout in ("row", "column"))
    assert (by_row.layout, by_column.layout) == ("row", "column")
    strides = [
        next(m.weight.stride() for m in s.model.modules() if isinstance(m, nn.Linear)) for s in (by_row, by_column)
    ]
    assert [stride[0] == 1 for stride in strides] == [False, True]
    assert answer(by_row) == answer(by_column)


def test_a_compiled_graph_gives_the_same_tokens(one_layer: str) -> None:
    eager, compiled = (opened(model=one_layer, options={"graph": graph})[0] for graph in ("eager", "compiled"))
    assert answer(eager) == answer(compiled)


def test_requests_of_different_lengths_in_one_batch_are_refused_and_not_cut() -> None:
    server, _ = opened()
    uneven = tuple(ScheduledRequest(n, 0, 0, length, 4, (0, 0, n)) for n, length in enumerate((16, 12)))
    with pytest.raises(BadInput, match="answers a batch of one length, and these requests have 2"):
        refuse_uneven(uneven)
    _, stamps = server.answer(uneven[:1])
    assert len(stamps) == 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with real weights: a model that has learned something, so that its answers differ by more than noise."""
    data = {"kind": "markov", "symbols": 16, "branches": 4}
    run = measured(
        tmp_path_factory.mktemp("trained"),
        training(
            data=data,
            global_batch=8,
            seq_len=32,
            learning_rate=4e-3,
            save=True,
            until={"gap_nats": 0.2, "every_steps": 10},  # to a loss, not for a time: a busy machine learns as much
            protocol={"duration_s": 60},
        ),
    )
    return str(run.folder / "weights")


def test_a_trained_model_is_saved_and_served_with_its_own_weights(trained: str) -> None:
    from safetensors.torch import load_file

    names = {path.name for path in Path(trained).iterdir()}
    assert {"config.json", "model.safetensors"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth"))]
    server, facts = opened(model=trained)
    stored = load_file(Path(trained) / "model.safetensors")
    for name, held in server.model.state_dict().items():
        assert torch.equal(held, stored[name]), name
    assert not any("random weights" in note for note in map(sentence_of, facts.findings))
    fresh, random = opened()
    assert answer(server) != answer(fresh)
    assert facts.executor.value("model.weights_hash") != random.executor.value("model.weights_hash")


def test_a_model_that_was_trained_from_a_config_is_saved_as_servers_take_it(trained: str) -> None:
    transformers = pytest.importorskip("transformers")
    servable(any_model(trained))
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained)
    texts = [tokenizer.decode([symbol]) for symbol in range(16)]
    assert all(len(text) == 1 and text.isprintable() and text.strip() for text in texts), "the language is visible"
    assert len(set(texts)) == 16
    config = any_model(trained).config
    ends = [config[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert min(ends) > 16, "no symbol of the language ends a text"
    assert tokenizer.eos_token_id == config["eos_token_id"]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False).endswith("a")


def test_weights_of_a_folder_have_a_load_and_drawn_ones_have_none(trained: str) -> None:
    read, drawn = opened(model=trained)[1].startup, opened()[1].startup
    assert (read["start_load_s"].value or 0) > 0
    assert (
        drawn["start_load_s"].reason == drawn["start_cached_share"].reason == "its random weights were drawn, not read"
    )
    for figures in (read, drawn):
        assert (figures["start_first_token_s"].value or 0) > 0
        assert (figures["start_second_token_s"].value or 0) > 0
    assert "fp32 reference" not in read["start_first_token_s"].method, "fp32 is its own reference"


def test_bf16_is_bit_for_bit_what_transformers_loads_as_bf16(trained: str) -> None:
    from transformers import AutoModelForCausalLM

    server, _ = opened(model=trained, point={"precision": "bf16"})
    theirs = AutoModelForCausalLM.from_pretrained(trained, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    prompts = server.prompts.batch([(1, 0)], 128)
    with torch.inference_mode():
        assert torch.equal(server.model(input_ids=prompts).logits, theirs(input_ids=prompts).logits)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_refused_and_never_opened(tmp_path: Path, name: str) -> None:
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "ran").write_text, ("code from a model folder",))

    config = load_model("tiny").config
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(BadInput, match="safetensors") as refused:
        opened(model=str(tmp_path))
    assert refused.value.code == "TL201"
    assert not (tmp_path / "ran").exists()


def test_weights_that_are_no_safetensors_are_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(load_model("tiny").config))
    (tmp_path / "model.safetensors").write_bytes(b"not a safetensors file")
    with pytest.raises(BadInput, match="cannot be loaded") as refused:
        opened(model=str(tmp_path))
    assert "\n" not in str(refused.value)


LOWER = {"bf16": (0.95, 0.001), "int8-weight": (0.95, 0.002), "int8-dynamic": (0.85, 0.02), "int4-weight": (0.80, 0.05)}


@pytest.mark.parametrize("precision", LOWER)
def test_a_lower_precision_is_near_fp32(trained: str, precision: str) -> None:
    data = {"kind": "markov", "symbols": 16, "branches": 4}
    _, facts = opened(model=trained, data=data, point={"precision": precision}, input_tokens=fixed(64))
    metrics = fidelity(facts.fidelity)
    least, most = LOWER[precision]
    assert metrics["top1_agreement"].value >= least  # type: ignore[operator]
    assert 0 < metrics["kl_nats"].value < most  # type: ignore[operator]
    assert abs(metrics["perplexity_change"].value) < 10 * most  # type: ignore[arg-type]
    assert len(facts.fidelity) == 8
    assert all(row.tokens == 64 for row in facts.fidelity)


@pytest.mark.parametrize("precision", ["int8-weight", "int4-weight"])
def test_a_wrong_scale_would_be_noticed(trained: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, name = (Int8WeightLinear, "scale") if precision == "int8-weight" else (Int4WeightLinear, "scale_zero")
    make = layer.__init__

    def wrong(self: Any, linear: nn.Linear) -> None:
        make(self, linear)
        getattr(self, name).mul_(2.0)

    monkeypatch.setattr(layer, "__init__", wrong)
    _, facts = opened(
        model=trained,
        data={"kind": "markov", "symbols": 16, "branches": 4},
        point={"precision": precision},
        input_tokens=fixed(64),
    )
    metrics = fidelity(facts.fidelity)
    assert metrics["kl_nats"].value > LOWER[precision][1]  # type: ignore[operator]


@pytest.mark.parametrize(("layer", "worst"), [(Int8WeightLinear, 0.02), (Int4WeightLinear, 0.2)])
@pytest.mark.parametrize("rows", [1, 3, 33])
@pytest.mark.parametrize("bias", [True, False])
def test_a_quantised_layer_multiplies_as_the_layer_it_replaces(layer: Any, worst: float, rows: int, bias: bool) -> None:
    torch.manual_seed(rows)
    linear = nn.Linear(64, 96, bias=bias).to(torch.bfloat16)
    x = torch.randn(2, rows, 64, dtype=torch.bfloat16)
    with torch.inference_mode():
        exact, near = linear(x).float(), layer(linear)(x).float()
    assert near.shape == exact.shape
    assert float((near - exact).norm() / exact.norm()) < worst


def test_int8_scales_and_codes_are_those_worked_by_hand() -> None:
    linear = nn.Linear(4, 2, bias=False)
    linear.weight.data = torch.tensor([[1.0, -2.0, 0.5, 0.0], [127.0, 64.0, -1.0, 0.4]])
    layer = Int8WeightLinear(linear)
    assert layer.weight.tolist() == [[64, -127, 32, 0], [127, 64, -1, 0]]  # 63.5 and 31.75 round to even and up
    assert layer.scale.tolist() == pytest.approx([2 / 127, 1.0], rel=0.004)


def test_a_precision_holds_as_many_bytes_as_it_says() -> None:
    held, tables = {}, 0
    for precision in ("fp32", "bf16", "int8-weight", "int4-weight"):
        server, facts = opened(point={"precision": precision})
        held[precision] = facts.memory["weights_bytes"].value
        tables = sum(m._buffers[n].nbytes for m in server.model.modules() for n in m._non_persistent_buffers_set)
    count = parameters(load_model("tiny").shape).total
    linears = [(512, 128)] + 2 * [(128, 128), (64, 128), (64, 128), (128, 128), (1024, 128), (1024, 128), (128, 1024)]
    weights, outputs = sum(out * width for out, width in linears), sum(out for out, _ in linears)
    rest = 2 * (count - weights) + tables  # the embedding and the norms stay in bf16
    assert held == {
        "fp32": 4 * count + tables,
        "bf16": 2 * count + tables,
        "int8-weight": weights + 2 * outputs + rest,  # a bf16 scale per output
        "int4-weight": weights / 2 + 4 * weights / 32 + rest,  # a bf16 scale and zero per 32
    }


@pytest.mark.parametrize("precision", ["fp32", "int8-dynamic", "int8-weight", "int4-weight"])
def test_counted_flop_of_both_phases_are_theorys(precision: str) -> None:
    server, facts = opened(options={"attention": "eager"}, point={"precision": precision, "batch": 2})
    shape = load_model("tiny").shape
    whole_cache = 16 + 6
    prefill = forward_flop(shape, 16, whole_cache - 16, "palm-full", logits="last")  # type: ignore[arg-type]
    assert facts.work["counted_prefill_flop"].value == 2 * prefill, "a static cache is multiplied whole"
    assert facts.work["counted_decode_flop"].value == 2 * decode_flop(shape, whole_cache - 1)  # type: ignore[arg-type]
    assert prefill == pytest.approx((theory_of(server.spec)["prefill_flop"].value or 0) / 2, rel=0.03)


@pytest.mark.parametrize("precision", ["bf16", "int8-weight"])
def test_where_fp32_does_not_fit_the_model_is_made_in_16_bits_and_fidelity_is_said_to_lack(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twinlens.executors.torch import infer
    from twinlens.executors.torch.model import build

    made: list[torch.dtype] = []
    real = build.build_model

    def watched(ref: Any, executor: Any, seed: int, device: Any, dtype: Any = torch.float32) -> Any:
        made.append(dtype)
        return real(ref, executor, seed, device, dtype)

    count = parameters(load_model("tiny").shape).total
    monkeypatch.setattr(infer, "build_model", watched)
    monkeypatch.setattr(infer, "free_bytes", lambda device: 4 * count)
    server, facts = opened(point={"precision": precision})
    assert made == [torch.bfloat16]
    assert not facts.fidelity
    assert any(
        note.startswith("Fidelity was not measured: the fp32 weights") for note in map(sentence_of, facts.findings)
    )
    assert len(answer(server)[0]) == 6
    hashed = facts.executor.value("model.weights_hash")
    monkeypatch.setattr(infer, "free_bytes", lambda device: 40 * count)
    _, roomy = opened(point={"precision": precision})
    assert made[1:] == [torch.float32]
    assert roomy.fidelity
    assert roomy.executor.value("model.weights_hash") == hashed, "16-bit weights are the fp32 ones, rounded"


def test_evidence_of_a_single_token_decode_stays_within_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    server, _ = opened(output_tokens=fixed(1), options={"graph": "compiled"})
    assert server.generation is not None
    held = {int(layer.cumulative_length) for layer in server.generation.cache.layers}
    assert held == {16 + 1}, "a prompt and one token, however often it was looked at"


def test_a_vision_model_is_really_compiled_when_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda model, **_: compiled.append(model) or model)
    server, facts = opened(model="vit-tiny", options={"graph": "compiled"})
    assert compiled == [server.model]
    assert facts.executor.value("compiler.name") == "torch.compile (inductor)"
    assert facts.executor.value("kernels.graph_breaks") == {"count": 0, "reasons": []}


@pytest.mark.parametrize("phase", ["prefill", "decode_eager"])
def test_a_phase_that_runs_in_another_format_than_declared_is_caught(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, linear = getattr(Generation, phase), nn.functional.linear

    def wide(x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
        return linear(x.float(), weight.float(), bias).to(x.dtype)

    def in_fp32(self: Generation, *parts: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(nn.functional, "linear", wide)
            return real(self, *parts)

    monkeypatch.setattr(Generation, phase, in_fp32)
    if phase == "decode_eager":
        monkeypatch.setattr(Generation, "decode", in_fp32)
    _, facts = opened(point={"precision": "bf16"})
    (compute,) = (check for check in facts.precision if check.tensor_class == "compute")
    assert (compute.verdict, compute.observed) == ("differs", "fp32"), compute.evidence


@pytest.mark.parametrize("model", ["vit-tiny", "resnet-tiny"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_vision_model_answers_a_batch_of_images(model: str, precision: str) -> None:
    server, facts = opened(model=model, point={"precision": precision, "batch": 3})
    assert facts.work["counted_image_flop"].value == theory_of(server.spec)["image_flop"].value
    assert len(facts.fidelity) == (8 if precision == "bf16" else 0)
    assert "kv_bytes" not in facts.memory


def test_images_and_words_are_not_mixed_up() -> None:
    for parts in ({"model": "tiny", "data": {"kind": "images"}}, {"model": "vit-tiny", "data": {"kind": "markov"}}):
        with pytest.raises(BadInput, match="do not fit") as refused:
            opened(**parts)
        assert refused.value.code == "TL209"


def test_a_context_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadInput, match="come to 522, the model's context ends at 512"):
        opened(input_tokens=fixed(512), output_tokens=fixed(10))


def test_each_token_has_its_own_time() -> None:
    server, _ = opened()
    rows: list[Request] = []
    server.play(TimedRequests([0], 16, 6), rows.append)
    (row,) = rows
    assert len(set(row.chunk_ns)) == 6
    assert row.chunk_tokens == (1,) * 6
