"""How long things took: running figures, whatever their number."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class _Figures:
    """Of one stage. Mean and deviation by the method of Welford, which keeps no list."""

    count: int = 0
    total: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    min: float = inf
    max: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        before = seconds - self.mean
        self.mean += before / self.count
        self.squares += before * (seconds - self.mean)
        self.min = min(self.min, seconds)
        self.max = max(self.max, seconds)

    def as_dict(self, all_seconds: float) -> dict[str, float]:
        figures = asdict(self)
        squares = figures.pop("squares")
        figures["std"] = sqrt(squares / (self.count - 1)) if self.count > 1 else 0.0
        figures["percentage"] = 100 * self.total / all_seconds if all_seconds else 0.0
        return figures


class PerfStats:
    """Figures for each stage of something that is done again and again.

    Example:
        >>> stats = PerfStats()
        >>> stats.add({"act": 1.0, "forward": 3.0})
        >>> stats.add({"act": 2.0, "forward": 2.0})
        >>> {stage: figures["percentage"] for stage, figures in stats.as_dict().items()}
        {'act': 37.5, 'forward': 62.5}
    """

    def __init__(self) -> None:
        self._stages: dict[str, _Figures] = {}

    def add(self, seconds: Mapping[str, float]) -> None:
        """Note how long the stages took, once."""
        for stage, took in seconds.items():
            self._stages.setdefault(stage, _Figures()).add(took)

    def as_dict(self) -> dict[str, dict[str, float]]:
        """The figures, stage by stage."""
        all_seconds = sum(figures.total for figures in self._stages.values())
        return {stage: figures.as_dict(all_seconds) for stage, figures in self._stages.items()}

    def show(self) -> None:
        """Print them as a table."""
        from rich.console import Console  # only where something is shown
        from rich.table import Table

        columns = ("count", "total", "mean", "std", "min", "max", "percentage")
        table = Table("stage", *columns[:-1], "share", title="seconds")
        for stage, figures in self.as_dict().items():
            count, *seconds, percentage = (figures[column] for column in columns)
            cells = [f"{value:.4f}" for value in seconds]
            table.add_row(stage, f"{count:.0f}", *cells, f"{percentage:.1f} %")
        Console().print(table)
