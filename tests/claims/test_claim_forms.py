"""Forms that no article used: other sizes and units, fields, and claims that say too little, or nonsense."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console
from test_claim_figures import FIGURES

import twinlens as tl
from twinlens.api.judging.claim import FIELDS
from twinlens.cli.main import app
from twinlens.reporting.document.terminal import screen as in_terminal
from twinlens.reporting.judging.claim import claim_document
from twinlens.reporting.wording.finding import clause_of


def ruled(sentence: str) -> str:
    """The ruling without its assumption; a sentence that is refused is not ruled."""
    try:
        return tl.claim(sentence).ruling.removesuffix(" under an assumption")
    except tl.BadInput:
        return "incomplete"


def missing(sentence: str) -> list[str]:
    (found,) = tl.claim(sentence).judged.of("claim-missing")
    return list(found.numbers["names"])


@pytest.mark.parametrize(
    ("sentence", "ruling", "value"),
    [
        ("llama-3.1-8b FP16 does 400 tok/s on H100 at batch 1", "wrong", 3.35e12 / 16.06e9),
        ("llama-3.1-8b INT8 reaches 30 tok/s per user at batch 64 and 8K context on 3.35 TB/s", "holds", 43.8),
        ("8B on 15T tokens takes 3 days on 2048 GPUs at 40% MFU and 989 TFLOPS", "wrong", 892_200),
        ("llama-3.1-8b trains at 8000 tok/s on 1 H100, 39% MFU", "holds", 0.3896),
        ("$2.50/h at 1000 tok/s is $0.70 per million tokens", "holds", 2.5 / 3.6e6),
        ("700 W at 1000 tok/s is 0.7 J per token", "holds", 0.7),
        ("700 W at 1000 tok/s is 5 tokens per joule", "wrong", 1 / 0.7),
        ("mixtral-8x7b FP16 does 200 tok/s on H100 at batch 1", "wrong", 131.4),
        ("70B prefills 32K context in 12 s on an H100 at 50% MFU", "holds", 11.91),
        ("70B prefills 32K context in 1 s on an H100", "wrong", 5.957),
        ("llama-3.1-8b prefills 200k tok/s on H100", "wrong", 989.4e12 / 16.06e9),
        ("an H100 has 3.35 TB/s", "holds", 3.35e12),
        ("a B200 has 192 GB", "wrong", 180e9),
        ("an H100 has 1979 TFLOPS in FP16", "wrong", 989.4e12),
        ("13B at 8 bits per weight is 13 GB", "holds", 13e9),
        ("13B at 4.85 bpw needs 7.3 GiB", "holds", 13e9 * 4.85 / 8),
        ("fine-tune 7B with LoRA on a 4090", "holds", 14e9),
        ("fine-tune 13B with LoRA on a 4090", "wrong", 26e9),
        ("QLoRA fine-tunes a 65B on a single 48GB GPU", "holds", 65e9 * 4.127 / 8),
        ("LoRA fine-tuning of a 7B needs 16 GB", "incomplete", 14e9),
        ("LoRA fine-tuning of a 13B needs 16 GB", "incomplete", 26e9),  # the frozen copy may have 8 bits
        ("LoRA fine-tuning of a 13B needs 5 GB", "wrong", 26e9),
        ("LoRA fine-tuning of a 13B in bf16 needs 16 GB", "wrong", 26e9),
        ("fully fine-tune 7B on a 4090", "wrong", 7e9 * 6),
        ("L40S is 2x slower than A100", "holds under an assumption", 2.039e12 / 864e9),
        ("A100 is 2x slower than L40S", "wrong", 864e9 / 2.039e12),
        ("A100 has 500 TFLOPS in BF16 and 2 TB/s", "wrong", 312e12),
        ("A100 has 312 TFLOPS in BF16 and 2 TB/s", "holds", 312e12),
        ("H100 SXM has 80 GiB of HBM3", "holds under an assumption", 80e9),
        ("H100 SXM has 80 GB of HBM3", "holds", 80e9),
        ("Is 24 GB enough for 13B at INT8?", "holds", 13e9),
        ("70B INT8 runs on a 24GB card", "wrong", 72.65e9),
        ("8B FP16 runs on a single 4090", "holds", 16.06e9),
        ("We get 45% MFU training Llama 70B on 256 H100 at 400 TFLOPS per GPU", "wrong", 400 / 989.4),
        ("We get 40% MFU training Llama 70B on 256 H100 at 400 TFLOPS per GPU", "holds", 400 / 989.4),
        ("all-reduce of 14 GB over 8 GPUs at 450 GB/s takes 54 ms", "holds under an assumption", 1.75 * 14 / 450),
        ("speculative decoding gives 3x with 4 draft tokens at 70% acceptance", "wrong", (1 - 0.7**5) / 0.3),
        ("speculation with 4 draft tokens at 80% acceptance is 2.5x faster", "holds", (1 - 0.8**5) / 0.2),
        ("B200 is twice as fast as H200", "holds under an assumption", 8 / 4.8),
        ("70B INT8 runs at 20 tok/s on an A100 80GB", "holds", 2.039e12 / 72.65e9),  # its memory, not the weights'
        ("Our chip has 500 TOPS INT8 so 7B runs at 35000 tok/s", "holds under an assumption", 500e12 / 14e9),
        ("Llama 3 70B at Q4_K_M runs at 20 tok/s on an RTX 4090", "wrong", 1008e9 / 42.47e9),  # it does not fit
        ("Llama 3 70B at Q4_K_M runs at 20 tok/s on two RTX 4090", "holds", 2 * 1008e9 / 42.47e9),
        ("MI300X has 5.3TB/s so 70B fp16 runs at 38 tok/s", "holds", 5.3e12 / 141.1e9),
        ("405B fits on 8x H100 in FP8", "holds", 410.06e9),
        ("128K context of Llama 3 8B takes 16 GiB of KV cache", "holds under an assumption", 16 * 1024**3),
        ("TTFT of 100ms for a 4K prompt on 70B FP16 on H100", "wrong", 0.589),
    ],
)
def test_a_claim_of_another_form(sentence: str, ruling: str, value: float) -> None:
    found = tl.claim(sentence)
    assert found.ruling == ruling
    assert found.computed[0] == pytest.approx(value, rel=0.02)


def test_a_sparse_rate_is_not_a_dense_one() -> None:
    found = tl.claim("an H100 has 1979 TFLOPS in FP16")
    assert [each.subject for each in found.judged.of("claim-remark")] == ["sparse", "narrower"]
    assert tl.claim("an H100 has 1979 TFLOPS in FP8").ruling == "holds"


def test_gb_is_never_taken_for_gib_without_a_word() -> None:
    words = "llama-3.1-70b KV in FP16 at 32K context for 16 users is 160 {}"
    decimal, binary = tl.claim(words.format("GB")), tl.claim(words.format("GiB"))
    assert (decimal.ruling, binary.ruling) == ("holds under an assumption", "holds")
    assert [each.subject for each in decimal.judged.of("claim-assumed")] == ["gib"]
    assert binary.judged.of("claim-assumed") == ()


def test_what_is_missing_is_listed() -> None:
    assert missing("X tokens/second at batch 32 INT8") == ["figure", "bandwidth", "model", "context"]
    assert missing("This GPU is fast")[:3] == ["figure", "lens", "model"]
    assert missing("a 13B needs 40 GB of KV at 32K context for 8 users") == ["model-layers"]
    assert missing("405B fits on 8 H100") == ["precision"]


def test_what_is_not_understood_is_said_word_by_word() -> None:
    found = tl.claim("70B Q4 frobs 45 tok/s on 1.79 TB/s, quux!")
    assert found.judged.of("claim-unused")[0].numbers["texts"] == ["frobs", "quux"]
    assert found.ruling == "incomplete"


def test_what_a_marketing_line_leaves_out_is_listed() -> None:
    assert missing("FP8 doubles throughput") == ["what-is-compared"]
    assert missing("vLLM is 24x faster than HF transformers") == ["what-is-compared"]
    assert missing("1000 tok/s on Groq") == ["bandwidth", "model", "batch", "context"]
    assert missing("DeepSeek V3 671B runs at 20 tok/s on a Mac Studio M3 Ultra with 512GB")[0] == "precision"
    assert missing("speculation is 3x faster") == ["drafts", "acceptance"]


def test_a_rate_without_its_precision_is_not_hidden_by_a_bandwidth_that_is_right() -> None:
    assert missing("A100 has 312 TFLOPS and 2 TB/s") == ["precision"]


def test_two_claims_in_one_sentence_are_both_judged() -> None:
    assert tl.claim("a 13B model takes 26GB in FP16 and 13GB in INT8").ruling == "holds"
    assert tl.claim("a 13B model takes 26GB in FP16 and 20GB in INT8").ruling == "wrong"
    assert tl.claim("8B on H100 and H200 does 100 tok/s FP16").ruling == "holds"
    with pytest.raises(tl.BadInput, match="contradicts itself, or is two claims in one"):
        tl.claim("a 13B model takes 26GB and 20GB in FP16")


def test_fields_do_for_a_sentence() -> None:
    by_fields = tl.claim(says="45 tok/s", model="70B", precision="Q4", bandwidth="1.79 TB/s", batch=1)
    by_words = tl.claim("70B Q4 does 45 tok/s on 1.79 TB/s at batch 1")
    assert by_fields.findings == by_words.findings
    assert set(FIELDS) >= {"says", "model", "precision", "kv", "batch", "users", "context", "device", "bandwidth"}


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("", "claim what"),
        ("asdf qwer", "nothing in 'asdf qwer'"),
        ("70B needs 40", "'40' has no unit"),
        ("KV of -40 GB", "must be above 0"),
        ("0 users at 32K need 40 GB of KV for 70B", "must be above 0"),
        ("70B and 8B fit on an H100", "contradicts itself"),
        ("batch 32 and batch 64 at 32K context need 40 GB KV", "contradicts itself"),
        ("70B Q4 does 45 tok/s on 9999999 PB/s", "beyond anything"),
        ("x" * 2000, "at most 1000 letters"),
    ],
)
def test_bad_input_is_one_sentence(sentence: str, said: str) -> None:
    done = CliRunner().invoke(app, ["claim", sentence])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "TL230" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("70B Q4 does 45 tok/s on 0 TB/s", "must be above 0"),
        ("a model with 0 layers, 8 KV heads, head dim 128 needs 40 GB of KV at 32K", "'0 layers' must be above 0"),
        ("7B with 99999999 layers, KV at 8K of 1 GB", "beyond anything"),
        ("batch -3 70B Q4 does 45 tok/s on 1.79 TB/s", "must be above 0"),
        ("-70B needs 40 GB", "must be above 0"),
        ("70B INT8 FP16 needs 70 GB", "which one is meant"),
        ("8B on H100 and L4 does 100 tok/s FP16", "which one is meant"),
        ("5 GB and 6 GB of KV for 70B at 32K", "contradicts itself"),
        ("70B at 40% MFU and 60% MFU trains 1T tokens in 30 days on 512 H100", "contradicts itself"),
        ("70B Q4 does 45 on 1.79 TB/s", "'45' has no unit"),
        ("70B Q4 does 1e30 tok/s on 1.79 TB/s", "beyond anything"),
        ("a $0 GPU pays for itself in 3 months at 8 h/day against $3/h", "must be above 0"),
        ("a $30k GPU pays for itself in 3 months at 25 h/day against $3/h", "beyond anything"),
        ("energy is 110% of the cost: 1 kW, $0.10/kWh, $30000 over 3 years", "more than the whole"),
        ("MFU of 140%: 70B trains at 9000 tok/s on 1 H100", "more than the whole"),
        ("an H100 costs $2 per useful hour at 130% utilisation, $30k over 36 months", "more than the whole"),
        ("llama-3.1-8b FP16 does 100 tok/s on a FooChip 3000", "'3000' has no unit"),
    ],
)
def test_contradictory_zero_negative_and_absurd_claims_are_one_sentence_each(sentence: str, said: str) -> None:
    done = CliRunner().invoke(app, ["claim", "--", sentence])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("sentence", "ruling"),
    [
        ("70B Q4 does 45 tok/s on 1.79 Tb/s", "incomplete"),  # bits, an eighth of it
        ("70B FP16 is 131.4 GB", "holds under an assumption"),  # GiB was meant
        ("70B FP16 is 131.4 GiB", "holds"),
        ("70B FP16 fits on an H200", "wrong"),  # by 0.1 GB of the datasheet; the driver shows more
        ("70B Q4 fits in 40 GiB", "holds"),
        ("H100 has 80 GiB", "holds under an assumption"),
        ("batch 32 and batch 32 at 32K with 70B FP16 need 343 GB KV", "holds under an assumption"),
        ("405B FP16 on 8x B200 for 64 users at 128K context fits", "wrong"),
        ("NVLink has 900 GB/s", "incomplete"),
        ("100 GB/s PCIe 4", "wrong"),
        ("PCIe 5 x16 has 63 GB/s one way", "holds under an assumption"),
        ("NaN tok/s for 70B", "incomplete"),
        ("70B training with 8-bit Adam fits on 4 H200", "holds"),
        ("70B full fine-tuning fits on 3 B200", "holds under an assumption"),
        ("70B full fine-tuning does not fit on 4 H100", "holds"),
    ],
)
def test_odd_claims_have_a_ruling(sentence: str, ruling: str) -> None:
    assert tl.claim(sentence).ruling == ruling


def test_a_datasheet_and_a_driver_that_differ_are_both_told() -> None:
    (told,) = tl.claim("70B FP16 fits on an H200").judged.of("claim-remark")
    assert (told.subject, told.numbers) == ("visible-memory", {"gb": 150.8, "gib": 140.4})


@pytest.mark.parametrize(
    ("option", "value"), [("--bandwidth", "1.79"), ("--batch", "many"), ("--device", "Q4"), ("--model", "H100")]
)
def test_a_field_of_another_kind_is_refused(option: str, value: str) -> None:
    done = CliRunner().invoke(app, ["claim", "70B Q4 does 45 tok/s", option, value])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1


def test_json_has_the_verdict_and_words_beside_the_numbers() -> None:
    done = CliRunner().invoke(app, ["claim", "70B Q4 does 45 tok/s on 1.79 TB/s", "--json"])
    data = json.loads(done.stdout)
    assert data["verdict"] == "holds under an assumption"
    assert [each["code"] for each in data["findings"]][:2] == ["claim-compared", "claim-computed"]
    assert all(each["text"] for each in data["findings"])


@pytest.mark.parametrize("sentence", [sentence for sentence, _, _ in FIGURES])
def test_a_claim_fits_one_screen_and_every_finding_has_its_sentence(sentence: str) -> None:
    screen = Console(width=80, file=io.StringIO())
    screen.print(in_terminal(claim_document(tl.claim(sentence).judged)))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("\n") <= 24
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "claim-" not in shown
    assert "claim solved" not in shown


@pytest.mark.parametrize("name", ["Llama 3 8B", "Llama-3-8B", "llama 3.1 8b", "Llama 8B"])
def test_a_family_and_a_size_are_one_name(name: str) -> None:
    found = tl.claim(f"{name} in bf16 needs 16 GB")
    assert found.ruling == "holds"
    assert found.computed[0] == pytest.approx(16.06e9, rel=0.01)
    assert not found.judged.of("claim-unused")


def test_a_consumer_card_may_be_named_by_its_number() -> None:
    found = tl.claim("4090 decodes llama-3.1-8b in bf16 at 900 tokens per second at batch 1")
    assert found.ruling == "wrong"
    assert found.computed[0] == pytest.approx(1.008e12 / 16.06e9, rel=0.02)


def test_no_solution_asks_for_more_than_the_peak() -> None:
    too_fast = tl.claim("TTFT of 12 ms for 32K context on a 70B on one H100 in bf16")
    assert too_fast.ruling == "wrong"
    assert too_fast.judged.of("claim-solved") == ()
    slow = tl.claim("70B prefills 32K context in 12 s on an H100 at 90% MFU").judged.of("claim-solved")
    assert [each.numbers["settings"]["mfu"] < 1 for each in slow] == [True]


def test_a_share_alone_is_a_figure() -> None:
    assert "figure" not in missing("Our H100 trains a 7B model at 60% MFU")


def test_one_figure_of_a_datasheet_is_no_sum_of_itself() -> None:
    told = clause_of(next(iter(tl.claim("1 PFLOPS dense bf16 on H100").judged.of("claim-computed"))))
    assert told == "989.4 TFLOP/s"


@pytest.mark.parametrize(
    ("sentence", "ruling"),
    [
        ("Per user, 8K of context on Llama-3.1-8B in bf16 is 17 GB of KV, with 16 users served", "wrong"),
        ("Per user, 8K of context on Llama-3.1-8B in bf16 is 1.07 GB of KV, with 16 users served", "holds"),
        ("For each user, 32 users of Llama-3.1-8B at 8K in FP16 take 34 GB of KV", "wrong"),
        ("128K shared by two users of Llama-3.1-70B in FP16 needs 86 GB of KV", "incomplete"),
        ("With 32 users, KV is 34 GB per user at 8K for Llama 3.1 8B in FP16", "wrong"),
        ("Per GPU, eight H100s deliver 26.8 TB/s", "wrong"),
        ("Two replicas of 8B in FP16 need 16 GB", "incomplete"),
    ],
)
def test_what_is_of_each_is_told_apart_from_what_is_of_all(sentence: str, ruling: str) -> None:
    assert ruled(sentence) == ruling


@pytest.mark.parametrize(
    ("sentence", "ruling"),
    [
        ("Quantising 70B from 16 to 4 bits saves 35 GB", "incomplete"),
        ("Quantising a 70B model to 4 bits saves 35 GB", "incomplete"),
        ("Going from 8K to 32K of context adds 4.3 GB of KV on Llama-3.1-8B in FP16", "incomplete"),
        ("Switching to FP8 lowers the weights of 70B by 70 GB", "incomplete"),
        ("All-reducing 16 GB over 8 GPUs with a ring sends 28 GB per GPU", "incomplete"),
        ("An L4 has 16 GB left for KV after loading Llama 3.1 8B in BF16", "wrong"),
        ("An L4 has 8 GB left for KV after loading Llama 3.1 8B in BF16", "holds"),
        ("Inference of 1T tokens through a 7B model takes 4.2e22 FLOPs", "incomplete"),
        ("At 50 % of its bandwidth an H100 decodes 70B FP8 at 45 tokens/s for one user", "incomplete"),
    ],
)
def test_a_difference_or_a_part_is_not_the_whole(sentence: str, ruling: str) -> None:
    assert ruled(sentence) == ruling


@pytest.mark.parametrize(
    ("sentence", "ruling"),
    [
        ("It is impossible to fit 8B in BF16 on an 80 GB H100", "wrong"),
        ("70B in FP8 is too big for an 80 GB H100", "wrong"),
        ("70B in BF16 is too big for an 80 GB H100", "holds"),
        ("8B in BF16 is not too big for an 80 GB H100", "holds"),
        ("8B in FP16 leaves nothing on a 24 GB card", "incomplete"),
        ("DeepSeek-V3 in FP8 needs more than eight H100s with 80 GB", "holds"),
        ("Llama 3.1 8B in FP8 needs more than eight H100s with 80 GB", "wrong"),
        ("It takes four H100s with 80 GB to hold 70B in FP8", "incomplete"),
        ("It takes two H100s with 80 GB to hold 70B in BF16", "holds"),
        ("One decode step of 70B in BF16 on an H100 SXM takes at least 40 ms", "incomplete"),
    ],
)
def test_a_denial_of_room_is_one_in_any_words(sentence: str, ruling: str) -> None:
    assert ruled(sentence) == ruling


@pytest.mark.parametrize(
    ("sentence", "ruling"),
    [
        ("Two dozen H100s have 1,920 GB", "holds"),
        ("Half a dozen H100s have 960 GB", "wrong"),
        ("One and a half million tokens at $2 per million tokens cost $3", "holds"),
        ("In 2023 Meta trained Llama 2 70B on 2T tokens with 8.4e23 FLOPs", "holds"),
        ("gpt-oss-120b has 117 billion parameters, 5.1 billion of them active", "holds"),
        ("At 700 W and 2,000 tokens/s, a token takes 3.5 joules", "wrong"),
        ("1 billion input tokens at $2 per million cost $2,000", "holds"),
        ("A laptop with 120 GB/s runs 70B in 4 bits at 12 tok/s at batch 1", "wrong"),
        ("70B in FP8, tensor parallel over two H100s, streams 200 tokens/s to one user", "wrong"),
    ],
)
def test_numbers_in_words_are_read_as_numbers(sentence: str, ruling: str) -> None:
    assert ruled(sentence) == ruling
