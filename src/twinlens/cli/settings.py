"""`--at FIELD=V,V,…` as a sweep over the operating point, `--at FIELD=search` as a search over it."""

from __future__ import annotations

from twinlens.errors import BadInput


def as_settings(at: list[str]) -> list[str]:
    """`--at` arguments as `--set` ones: `batch=1,4` is `sweep.batch=[1, 4]`, `rate_per_s=search` is
    `search.over="rate_per_s"`. Raises BadInput for anything else.
    """
    settings = []
    for argument in at:
        field, equals, values = argument.partition("=")
        if not equals or not field.strip() or not values.strip():
            raise BadInput(f"--at wants FIELD=VALUE,VALUE, not {argument!r}; for example --at batch=1,4", code="TL204")
        if values.strip() == "search":
            settings.append(f'search.over="{field.strip()}"')
            continue
        items = ", ".join(_literal(value.strip()) for value in values.split(","))
        settings.append(f"sweep.{field.strip()}=[{items}]")
    return settings


def _literal(value: str) -> str:
    if value in ("true", "false"):
        return value
    try:
        float(value)
    except ValueError:
        return f'"{value}"'
    return value
