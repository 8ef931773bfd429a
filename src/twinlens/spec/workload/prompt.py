"""Prompts: the source of their words, the prefix they share, and the turns of a session."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec
from twinlens.spec.workload.length import Length


class Synthetic(Spec):
    """Common English words drawn from a seed."""

    kind: Literal["synthetic"] = "synthetic"
    tokens_per_word: PositiveFloat = Field(
        1.0, description="Tokens that the server's tokenizer makes of a word with its leading space."
    )


class PromptFile(Spec):
    """Passages of a local UTF-8 text file, each from a place drawn from a seed."""

    kind: Literal["file"] = "file"
    path: str = Field(description="A local UTF-8 text file, whose passages are the prompts.", examples=["corpus.txt"])
    tokens_per_word: PositiveFloat = Field(
        1.3, description="Tokens that the server's tokenizer makes of a word with its leading space."
    )


Prompts = Annotated[Synthetic | PromptFile, Field(discriminator="kind")]


class Prefix(Spec):
    """A beginning that requests share: `share` of them (or of the sessions) open with one of `count` prefixes.

    `choice`: "zipf" is p_k ∝ k^-exponent.
    """

    tokens: PositiveInt = Field(
        description="The length of a shared prefix; it comes before the tokens of `input_tokens`.", examples=[1024]
    )
    count: PositiveInt = Field(1, description="How many different prefixes there are.")
    choice: Literal["uniform", "zipf"] = Field(
        "uniform", description="How a request chooses its prefix: each alike, or by a Zipf law."
    )
    exponent: PositiveFloat = Field(1.0, description="The exponent of the Zipf law of prefixes.")
    share: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="The share of requests (or of sessions) that open with a shared prefix."
    )


class Sessions(Spec):
    """Conversations: every arrival starts one, and each turn's prompt holds all that was said before.

    `input_tokens` of the workload are those a turn adds, `output_tokens` its answer. A turn is due `think_s` after the
    end of the one before, gamma with `think_cv`.
    """

    turns: Length = Field(description="How many requests a session has.", examples=[{"kind": "fixed", "value": 4}])
    think_s: NonNegativeFloat = Field(
        0.0, description="The mean time from the end of an answer until the next turn is due."
    )
    think_cv: NonNegativeFloat = Field(
        1.0, description="The coefficient of variation of that time: 1 is exponential, 0 always the same."
    )
    max_context_tokens: PositiveInt | None = Field(
        None,
        description="A session ends early where its next turn and answer would exceed so many tokens.",
        examples=[8192],
    )


# Tasks of an inference request: tokens streamed, or one answer in one piece (embeddings, a ranking, classes).


class Generate(Spec):
    """An answer of output tokens (or the class of one image, by an engine in this process)."""

    kind: Literal["generate"] = "generate"


class Embed(Spec):
    """A vector for each text of a request."""

    kind: Literal["embed"]
    texts: PositiveInt = Field(1, description="How many texts a request holds, each of `input_tokens`.")
    dimension: PositiveInt | None = Field(
        None,
        description="Numbers in each vector; without it as many as the first answer has. An answer of another length "
        "has failed.",
        examples=[384],
    )


class Rerank(Spec):
    """A score for each document of a request, by how well it answers the request's query."""

    kind: Literal["rerank"]
    documents: PositiveInt = Field(8, description="How many documents a request holds, each of `input_tokens`.")
    query_tokens: PositiveInt = Field(16, description="Tokens of the query.")


class Classify(Spec):
    """A score of each class for each image of a request, over HTTP."""

    kind: Literal["classify"]
    images: PositiveInt = Field(1, description="How many images a request holds.")


Task = Annotated[Generate | Embed | Rerank | Classify, Field(discriminator="kind")]


def items_per_request(task: Task) -> int:
    """Texts, documents or images of one request; 1 for an answer of tokens."""
    match task:
        case Embed():
            return task.texts
        case Rerank():
            return task.documents
        case Classify():
            return task.images
    return 1
