"""Running figures of durations, in constant memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, sqrt


@dataclass(slots=True)
class _Figures:
    """The statistics of one stage. Mean and deviation are computed by Welford's method, without a list."""

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
    """Running statistics for each stage of repeated calls.

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
        """Add the durations of the stages of one call."""
        for stage, took in seconds.items():
            self._stages.setdefault(stage, _Figures()).add(took)

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the figures, stage by stage."""
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
