"""The section of verdicts on limits, of one run or of several."""

from __future__ import annotations

from collections.abc import Sequence

from diploee.base.metric import NONE, number
from diploee.grid.limits.report import VERDICTS, LimitReport
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Figure, Section, SectionTable
from diploee.runs.words import moment, pattern_for

COVERAGE = "Coverage, source, cause"
ENDS = "Other end of a large job"
"""Columns that say why a verdict is what it is, and what it is at the other end."""


def limits_section(reports: Sequence[tuple[RunFolder, LimitReport, str]]) -> Section:
    """Return the verdict on each limit of runs, the worst first.

    Several runs have labels.
    """
    many = len({label for _, _, label in reports}) > 1
    tables, shared = [], dict.fromkeys(reports[0][1].notes) if reports else {}
    for _, report, _ in reports:
        shared = {
            note: None for note in shared if note in report.notes and len(reports) > 1
        }
    for run, report, label in sorted(reports, key=lambda of: of[1].rank()):
        step_ms, figures = run.scenario.resolution_ms, list[Figure]()
        ranked = sorted(report.results, key=lambda of: -VERDICTS.index(of.verdict))
        for k, found in enumerate(ranked, start=1):
            item, least = f"{k}. {found.text}", "at least " if found.least else ""
            worst = f"{number(found.value, pattern_for([found.value]))} {found.unit}".strip()  # noqa: E501
            cells = {
                "Verdict": found.verdict,
                "Allowed": f"{least}{found.limit:g} {found.unit}".strip(),
                "Worst": worst,
                "Of the limit": f"{100 * found.use:,.0f} %"
                if found.use == found.use
                else NONE,
                "When": moment(found.time or None, step_ms),
                "Violations": f"{found.violations:,}",
                **({ENDS: found.ends} if any(of.ends for of in ranked) else {}),
                COVERAGE: "; ".join(
                    filter(None, (found.note, found.scope, found.source, found.cause))
                ),
            }
            figures += [
                Figure(item, text, quantity=name) for name, text in cells.items()
            ]
        open_ = [("inconclusive", of) for of in report.unchecked]
        open_ += [("not covered", of) for of in report.outside]
        for k, (word, of) in enumerate(open_, start=len(report.results) + 1):
            figures += [
                Figure(f"{k}. {of.text}", word, quantity="Verdict"),
                Figure(f"{k}. {of.text}", of.reason, quantity=COVERAGE),
            ]
        name = (
            f"{report.name or 'limits'}, on means of {report.resolution_s:g} s: "
            f"{report.verdict.upper()} ({report.counts()})"
        )
        title = f"{label}: {name}" if many else name
        said = (report.origin, *(note for note in report.notes if note not in shared))
        note = " ".join(f"{text[:1].upper()}{text[1:]}." for text in said if text)
        tables.append(SectionTable(title, tuple(figures), note, "Limit"))
    notes = (
        (
            "Met: all of a limit that this kind of model covers is seen over a whole "
            "year, and nothing is beyond it. Inconclusive: the run shows a part alone, "
            "and nothing there is beyond it."
        ),
        *(f"{text[:1].upper()}{text[1:]}." for text in shared),
    )
    return Section("limits", "Limits", (), tuple(tables), (), notes)
