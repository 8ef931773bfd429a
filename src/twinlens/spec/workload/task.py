"""Tasks of an inference request: tokens streamed, or one answer in one piece (embeddings, a ranking, classes)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from twinlens.spec.frozen import Spec


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
