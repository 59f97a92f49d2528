"""What the columns of a table were taken for, in lines for people."""

from collections.abc import Mapping, Sequence

from ndp.core.io.tables import shown
from ndp.tabular.columns import ColumnType, Kind
from ndp.tabular.encoding import LeftOut
from ndp.tabular.fitted import FittedTarget


def describe_columns(
    types: Sequence[ColumnType], missing: Mapping[str, int], fitted: Sequence[FittedTarget], targets: Sequence[str]
) -> list[str]:
    """A line for each column, and one for what was missing. Targets are told apart where a column serves them differently."""
    lines = []
    for index, column in enumerate(types):
        became = [_became(one, index) for one in fitted]
        if len(set(became)) == 1:
            words = became[0]
        else:
            words = "; ".join(
                f"for {shown(name)}: {each or 'as it is'}" for name, each in zip(targets, became, strict=True)
            )
        lines.append(f"{shown(column.name)}: {column.kind}{f' ({words})' if words else ''}")
    if missing:
        listed = ", ".join(f"{shown(name)} {count}" for name, count in missing.items())
        lines.append(
            f"Missing values: {listed}. In a category they are a level; in a number they have an indicator where they tell "
            "something, and rows that lack another number are predicted without it"
        )
    return lines


def _became(fitted: FittedTarget, index: int) -> str:
    part = fitted.encoding.parts[index]
    if not isinstance(part, LeftOut) and index not in fitted.owners:
        return "left out: others go with the target more"
    return part.words


def counted_kinds(types: Sequence[ColumnType]) -> str:
    """Such as "3 numbers and 1 category"."""
    plural = {Kind.CATEGORY: "categories", Kind.ORDERED: "ordered categories"}
    counts = [(kind, sum(one.kind is kind for one in types)) for kind in Kind]
    words = [f"{count} {kind if count == 1 else plural.get(kind, f'{kind}s')}" for kind, count in counts if count]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
