"""The endpoint of a server that is to be started: chat, or completions where its folder has no chat template."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from twinlens.executors.launch.model_folder import has_chat_template
from twinlens.executors.launch.options import Settings
from twinlens.executors.launch.recipe import Recipe
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Generate
from twinlens.spec.workload.workload import InferenceWorkload

CHOSEN = "asking /v1/completions: the folder has no chat template"


def with_endpoint(settings: Settings, recipe: Recipe, spec: RunSpec) -> Settings:
    """The settings with completions as the endpoint where chats would be refused after minutes of loading.

    An endpoint or a template that the spec names stays; a GGUF file holds its own template.
    """
    workload, folder = spec.workload, spec.model.folder
    is_chat = isinstance(workload, InferenceWorkload) and isinstance(workload.task, Generate)
    if not is_chat or folder is None or recipe.needs_gguf or has_chat_template(Path(folder)):
        return settings
    if "endpoint" in settings.client or any("chat-template" in word for word in settings.args):
        return settings
    return replace(settings, client={**settings.client, "endpoint": "completions"})
