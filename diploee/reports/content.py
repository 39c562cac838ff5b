"""Contents of a report: sections of charts and tables."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.drawing.charts import Chart


@dataclass(frozen=True)
class PageTable:
    """A table: header cells and rows of text.

    The first `n_names` cells of a row are names, the last `n_texts` words; what is between them
    are numbers where `numeric`. With `halves`, two columns stand side by side where there is room.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    n_names: int = 1
    n_texts: int = 0
    numeric: bool = True
    halves: bool = False

    def is_number(self, column: int) -> bool:
        """Tell whether the n-th column holds numbers."""
        return self.numeric and self.n_names <= column < len(self.header) - self.n_texts


@dataclass(frozen=True)
class Section:
    """A heading with notes, and charts and tables in the order of reading."""

    id: str
    title: str
    content: tuple[Chart | PageTable, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts alone."""
        return tuple(part for part in self.content if isinstance(part, Chart))

    @property
    def tables(self) -> tuple[PageTable, ...]:
        """The tables alone."""
        return tuple(part for part in self.content if isinstance(part, PageTable))


@dataclass(frozen=True)
class Report:
    """All that a report shows."""

    title: str
    subtitle: str
    figures: tuple[tuple[str, str, str], ...]
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    figures_note: str = ""

    @property
    def n_columns(self) -> int:
        """Columns of the figures that head the page: those that leave the last row fullest."""
        n = len(self.figures)
        return max((6, 5), key=lambda columns: (n % columns or columns) / columns)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts of all sections, in their order."""
        return tuple(chart for section in self.sections for chart in section.charts)
