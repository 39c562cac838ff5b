"""The sections of a run: which metric belongs where, and what comes first.

`RANKED` says it once, for all views of a run and for comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from diploee.metric import NONE, Metric, find_metric, number
from diploee.metrics.catalogue import declared_metrics
from diploee.metrics.cause_words import cause_words, causes_of, event_words
from diploee.metrics.limits import LimitReport
from diploee.metrics.limits.report import VERDICTS
from diploee.outputs.sections import Figure, Section, Table
from diploee.outputs.words import interval, listed, moment, pattern_for
from diploee.units import MS_PER_MIN, MS_PER_S, S_PER_MIN, W_PER_MW, PowerUnit, power_unit

if TYPE_CHECKING:
    from diploee.outputs.reader import Run


@dataclass(frozen=True)
class _Pivot:
    """A table of metrics: a row for each match of `<row>` in the keys.

    `columns` are what follows in the keys, with their headings; None is the label of the metric.
    """

    title: str
    key: str
    columns: Mapping[str, str | None]
    note: str = ""
    first: str = ""
    whole: str = ""  # name of a last row, of the keys without `<row>`


@dataclass(frozen=True)
class _Part:
    """A section of a run as `RANKED` declares it: prefixes of keys, or keys, in their order."""

    id: str
    title: str
    keys: tuple[str, ...] = ()
    tables: tuple[_Pivot, ...] = ()
    charts: tuple[str, ...] = ()
    note: str = ""
    folded: bool = False


_SIZES = {"max_mw": "Largest", "p999_mw": "P99.9", "p99_mw": "P99"}
_DEMAND = {
    "max_mw": "Active", "time": "When", "max_mva": "Apparent", "max_mvar": "Most reactive",
    "min_mvar": "Least reactive", "power_factor": "Power factor", "load_factor": "Load factor",
}  # fmt: skip
_EVENT = {
    "twin_mw": "Without it", "mean_mw": "Power", "target_mw": "Target",
    "mean_reduction": "Reduction", "held_fraction": "Intervals at target",
    "issue_to_target_s": "Issue to target", "overshoot_mw": "Overshoot",
    "not_drawn_mwh": "Not drawn", "rebound_mw": "Largest rebound", "rebound_mwh": "Rebound",
    "weighted_performance": "Weighted performance", "money": "Money saved", "t_co2": "CO2 saved",
    "times.held": "From",
}  # fmt: skip
_JOB_COSTS = {
    "mean_wait_change_h": None, "p95_wait_change_h": None, "lost_node_h": None,
    "restart_node_h": None, "paused_node_h": None, "deadlines": None, "deadline_misses": None,
    "twin_deadline_misses": None,
}  # fmt: skip

RANKED = (
    _Part(
        "demand", "Demand and energy",
        (
            "power.max_mw", "power.energy_mwh", "power.mean_mw", "power.load_factor",
            "power.peak_to_average_ratio", "grid.maximum_demand.intervals.15min.max_mw",
            "grid.maximum_demand.intervals.30min.max_mw",
            "grid.maximum_demand.intervals.60min.max_mw",
            "grid.maximum_demand.intervals.15min.load_factor",
            "grid.load_duration_curve.0.1%.exceeded_mw", "grid.minimum.min_mw",
            "grid.headroom.rated_mw", "grid.headroom.mw", "grid.headroom.fraction",
            "grid.coincidence.factor", "power.", "measures.",
        ),
        (
            _Pivot("By pool", "pools.<row>.", {
                "power.mean_mw": "Mean", "power.max_mw": "Peak", "power.energy_mwh": "Energy",
                "power.load_factor": "Load factor", "utilization.mean": "Occupancy",
                "jobs.queued_fraction": "Jobs that queued",
            }, "Of a pool: power of its devices.", "Pool"),
            _Pivot("By month", "grid.monthly_peaks.<row>.", {
                "max_mw": "Peak", "time": "When",
            }, "Times are the start of an interval.", "Month"),
        ),
        ("carpet", "peak-week", "bands", "duration", "months"),
    ),
    _Part(
        "ramps", "Ramps and swings",
        tuple(f"grid.voltage_change.{k}" for k in ("largest_percent", "within_percent",
                                                    "flicker_pst")),
        (
            _Pivot("Ramps up", "grid.ramps.intervals.<row>.up.",
                   _SIZES | {"max_mw_per_min": "Largest rate", "time": "When"},
                   "The difference of the means of two adjacent intervals of the length given, at "
                   "every start of an interval of the run.", "Over"),
            _Pivot("Ramps down", "grid.ramps.intervals.<row>.down.",
                   _SIZES | {"max_mw_per_min": "Largest rate", "time": "When"}, "", "Over"),
            _Pivot("Swings", "grid.rolling_range.windows.<row>.", _SIZES | {"time": "From"},
                   "The largest less the smallest mean within a window, at every start of an "
                   "interval of the run.", "Within"),
            _Pivot("Rapid voltage changes", "grid.voltage_change.steps.<row>.", {
                "total": "Steps", "most_per_hour": "Most in an hour",
                "most_per_day": "Most in a day",
            }, "Settled changes behind the site's short-circuit power; a step counts once in each "
               "size that it reaches.", "From"),
        ),
        ("ramps", "swings", "worst-weeks", "zooms"),
    ),
    _Part(
        "spectrum", "Spectrum", (),
        (
            _Pivot("Band levels", "grid.spectrum.bands.<row>.", {
                "rms_p50_mw": "P50 rms", "rms_p99_mw": "P99 rms", "rms_max_mw": "Largest rms",
                "worst_window": "Worst window from", "worst_window_strongest_hz": "Strongest there",
            }, "Of 10-minute windows that overlap by half: linear trend taken out, Hann window "
               "(Welch). Not corrected for what the averaging takes away.", "Band"),
            _Pivot("Strongest lines of the mean spectrum", "grid.spectrum.lines.<row>.", {
                "frequency_hz": "Frequency", "period_s": "Period", "rms_mw": "Rms",
                "over_floor": "Over the floor",
            }, "Where the mean over all windows stands out of its own floor, the median of the "
               "bins around, by more than noise would.", "Rank"),
        ),
        ("spectrum",), folded=True,
    ),
    _Part(
        "poi", "Up to the meter",
        ("poi.headroom.", "poi.pue", "poi.peak.", "poi.reactive.", "poi.", "billing.", "*stages*"),
        (
            _Pivot("Energy by part", "poi.monthly.<row>.", {
                "energy.*_mwh": "", "exported_mwh": "Exported", "pue": "PUE",
                "tue_device": "Over device energy",
            }, "PUE: gross energy (the meter's, the output of sources, the net discharge of stores "
               "and what is held back of the load) over the nodes' AC energy, which holds their "
               "fans and supplies. Over device energy: the same over that of GPUs and CPU "
               "packages.", "Month", "Whole run"),
            _Pivot("Energy and power factor", "billing.months.<row>.", {
                "energy_mwh": "Energy", "drawn_mvarh": "Drawn", "supplied_mvarh": "Supplied",
                "lagging_power_factor": "Lagging power factor",
                "leading_power_factor": "Leading power factor",
            }, "Reactive energy drawn and supplied is not netted.", "Month"),
            *(
                _Pivot(f"Demand over {minutes} min", f"billing.months.<row>.demand.{minutes}min.",
                       _DEMAND, "Largest means over whole clock intervals; no prices.", "Month")
                for minutes in (15, 30, 60)
            ),
            _Pivot("Billed demand", "billing.months.<row>.billed.", {
                "for_power_factor_mw": "For power factor", "ratchet_mw": "Ratchet",
                "max_mw": "Billed", "reactive_mvar": "Reactive beyond its free share",
            }, "By the scenario's rules.", "Month"),
        ),
        ("poi",),
    ),
    _Part(
        "flexibility", "Events and what they cost", ("flexibility.",),
        (
            _Pivot("Events", "flexibility.events.<row>.", _EVENT,
                   "Against the same run without control. Rebound: largest 15 min, and energy, "
                   "above it within 24 h.", "Event"),
            _Pivot("Cost to the jobs", "flexibility.<row>.", _JOB_COSTS,
                   "Each job against itself without control."),
        ),
        ("events",),
    ),
    _Part("nodes", "Nodes and queue", ("utilization.", "jobs."), (), ("occupancy", "queue")),
    _Part(
        "aggregates", "Least, mean and largest", (),
        (_Pivot("By job class", "aggregates.<row>.", {
            f"{name}.{kind}": f"{heading}, {kind.partition('_')[0]}"
            for name, heading, unit in (("power", "Device power", "_mw"),
                                        ("busy_nodes", "Busy nodes", ""),
                                        ("utilization", "Occupancy", ""),
                                        ("queued_jobs", "Waiting jobs", ""))
            for kind in (f"min{unit}", f"mean{unit}", f"max{unit}")
        }, "Of all; of each job class without idle nodes where the run was made --by-load, its "
           "occupancy over the nodes of its pool. Busy nodes and waiting jobs at the start of each "
           "interval.", "Of"),),
        folded=True,
    ),
    _Part(
        "layout", "Racks, rows and halls", (),
        (_Pivot("By level", "layout.<row>.", {
            "count": "Number", "mean_mw": "Mean of one", "p99_mw": "Largest P99",
            "max_mw": "Largest peak", "peak_to_average": "Peak to average",
            "coincidence_factor": "Coincidence", "above_rating": "Above their rating",
            "above_rating_h": "Hours above",
        }, "Once the run has filled up; each part is in parts.parquet. Nodes of a load draw alike: "
           "the coincidence is an upper bound, and a part swings at least as much as shown.",
           "Level"),),
        folded=True,
    ),
    _Part(
        "services", "Inference services", ("requests.",),
        (_Pivot("By service", "requests.services.<row>.", {
            "incoming_rps": "Incoming", "incomplete_rps": "Unserved",
            "mean_instances": "Mean instances", "max_instances": "Most instances",
            "reserved_nodes": "Reserved", "latency_s.mean": "Mean latency",
            "latency_s.p90": "P90 of latency", "hours_with_unserved_requests": "Unserved time",
            "hours_over_latency_limit": "Over the latency limit",
        }, "Rates are means over the whole period.", "Service"),),
        ("request-rates", "unserved", "instances"),
    ),
    _Part(
        "synchronous", "Synchronous training", ("synchronous.",),
        (_Pivot("By stream", "synchronous.<row>.", {
            "ettr": "Effective training time ratio", "failures": "Failures",
            "planned_interruptions": "Planned interruptions", "checkpoints": "Checkpoints",
            "node_h": "Node-hours", "lost_node_h": "Lost node-hours",
        }, "Effective training time: progress over the time that the jobs hold their nodes.",
           "Stream"),),
    ),
    _Part(
        "replicas", "Replicas of served models", ("replicas.",),
        (
            _Pivot("By model", "replicas.models.<row>.", {
                "mean_replicas": "Replicas", "mean_batch_size": "Batch size",
                "batch_changes_per_hour": "Changes", "tokens_per_s": "Tokens",
                "itl_s.mean": "Mean inter-token latency", "itl_s.p99": "P99 of it",
                "hours_over_deadline": "Over the deadline",
            }, "", "Model"),
            _Pivot("By stream", "replicas.streams.<row>.", {
                "mean_mw": "Mean", "energy_mwh": "Energy", "violation_h": "In violation",
                "violation_mean": "Mean violation",
            }, "Violations are of the cap.", "Stream"),
        ),
    ),
)  # fmt: skip
"""The sections of a run, what people ask first at the top."""


def run_sections(run: Run, limits: Sequence[LimitReport] = ()) -> list[Section]:
    """Return the sections of a run, the answer first.

    Parameters
    ----------
    run : Run
        An open run.
    limits : sequence of LimitReport
        Verdicts that the answer gives in a word, and a section in full.
    """
    view = RunView(run)
    found = [_answer(view, limits)]
    if limits:
        found.append(limits_section([(run, report, "") for report in limits]))
    found += [view.section(part) for part in RANKED]
    ramps = next(k for k, section in enumerate(found) if section.id == "ramps")
    found[ramps] = _with_causes(found[ramps], view)
    notes = {"poi": [*_billing_notes(run), *reactive_notes(run)], "ramps": voltage_notes(view)}
    found = [replace(s, notes=(*s.notes, *notes.get(s.id, ()))) for s in found if s]
    if run.scenario.facility.ride_through:
        found.append(run.ride_through.section())
    return [*found, provenance(run)]


def reactive_notes(run: Run) -> list[str]:
    """Return that reactive power rests on assumptions, where no band says how far."""
    if run.bands or not run.manifest.get("assumed") or not run.metrics.get("poi"):
        return []
    return [
        "Reactive power rests on assumed filters, capacitors and transformers: it is known to 30 % "
        "at best, and its sign may not be. Its band: diploee ensemble SITE --assumed --runs 40, "
        "then --bands."
    ]


def _billing_notes(run: Run) -> list[str]:
    """Return which months the run covers in part, and which ratchets are lower bounds."""
    months = (run.metrics.get("billing") or {}).get("months") or []
    partial = [month["month"] for month in months if not month["complete"]]
    bound = [m["month"] for m in months if (m.get("billed") or {}).get("lower_bound")]
    notes = [f"Only what the run covers: {listed(partial)}."] if partial else []
    ratchet = "Lower bounds, as the ratchet knows fewer than 11 whole months"
    return [*notes, *([f"{ratchet}: {listed(bound)}."] if bound else [])]


def voltage_notes(view: RunView) -> list[str]:
    """Return what must be known of the rapid voltage changes."""
    found = []
    if view.values.get("grid.voltage_change.lower_bound"):
        found.append("Voltage changes are lower bounds, as no reactive power is modelled.")
    if n := view.values.get("grid.voltage_change.collapses"):
        found.append(f"The voltage collapses at {n:,} instants: two buses have no solution.")
    return found


def ranks(keys: Iterable[str]) -> list[str]:
    """Return keys of metrics in the order of the sections, those of the answer first."""
    order = [*_FIRST, *(key for part in RANKED for key in (*part.keys, *_columns(part)))]

    def rank(key: str) -> int:
        return next((k for k, wanted in enumerate(order) if _fits(key, wanted)), len(order))

    return sorted(keys, key=rank)


def _columns(part: _Part) -> Iterator[str]:
    for pivot in part.tables:
        yield from (f"{pivot.key}{column}" for column in pivot.columns)


def _fits(key: str, wanted: str) -> bool:
    if "<row>" in wanted:
        before, after = wanted.split("<row>")
        return key.startswith(before) and key.endswith(after.rpartition("*")[2])
    return key == wanted or (wanted.endswith(".") and key.startswith(wanted))


class RunView:
    """A run's values with what is declared of them, in the page's unit of power."""

    def __init__(self, run: Run, unit: PowerUnit | None = None) -> None:
        self.run, self.values = run, run.values
        self.step_ms = run.scenario.resolution_ms
        self.unit = unit or power_unit(run.metrics["power"]["max_mw"] * W_PER_MW)
        declared = declared_metrics()
        known = {metric.key for metric in declared}
        self.stages = tuple(metric for metric in run.stage_metrics if metric.key not in known)
        self.declared = (*declared, *self.stages)
        blocks = {f"{spec.kind}." for spec in run.scenario.facility.stages}
        self.of_stages = blocks | {f"{m.key.partition('.')[0]}." for m in run.stage_metrics}

    def metric(self, key: str) -> Metric | None:
        """Return the metric of a key, in the page's unit."""
        found = find_metric(key, self.declared)
        return found.sized(self.unit) if found else None

    def figure(self, key: str, item: str = "", note: str | None = None) -> Figure | None:
        """Return the figure of a key; None where the run has none."""
        value, metric = self.values.get(key), self.metric(key)
        if metric is None or not isinstance(value, int | float) or isinstance(value, bool):
            return None
        about = (self.when(key) or metric.text) if note is None else note
        pattern = "" if re.match(r"[kMG](W|VA|var)", metric.suffix) else metric.format
        found = Figure(
            item or metric.name, value * metric.factor, metric.suffix, about, "", key, pattern
        )
        bands = self.run.bands.ends if self.run.bands else {}
        if key not in bands:
            return found
        low, high = (end * metric.factor for end in bands[key])
        form = pattern or pattern_for([low, high])
        words = [about, f"P5-P95 {number(low, form)} to {number(high, form)}"]
        signed = bands.get("poi.peak.reactive_mvar" if key == "poi.peak.power_factor" else key)
        if key in _SIGNED and signed and signed[0] < 0 < signed[1]:
            words.append("sign not known")
        return replace(found, note="; ".join(filter(None, words)), band=(low, high))

    def when(self, key: str) -> str:
        """Return when an extreme was, as text."""
        group, _, name = key.rpartition(".")
        time = self.values.get(f"{group}.{name}_time")
        if time is None and name in ("max_mw", "min_mw", "max_mva"):
            time = self.values.get(f"{group}.time")
        if time is None and key in ("power.max_mw", "power.min_mw"):
            time = self.values.get("grid.peak.time" if "max" in key else "grid.minimum.time")
        return moment(time, self.step_ms) if time else ""

    def section(self, part: _Part) -> Section:
        """Return a section of the run."""
        found: dict[str, Figure] = {}
        for wanted in part.keys:
            for key in self._keys(wanted):
                if key not in found and (figure := self.figure(key)):
                    found[key] = figure
        tables = tuple(filter(None, (self.table(pivot) for pivot in part.tables)))
        notes = (part.note,) if part.note else ()
        figures = tuple(found.values())
        return Section(part.id, part.title, figures, tables, part.charts, notes, part.folded)

    def _keys(self, wanted: str) -> Iterator[str]:
        """Yield the keys of a prefix that stand in tables, or a key itself."""
        prefixes = tuple(self.of_stages) if wanted == "*stages*" else (wanted,)
        if not all(prefix.endswith(".") for prefix in prefixes):
            yield wanted
            return
        for metric in self.declared:
            shown = metric.view != "detail" or wanted == "measures."
            if shown and "<" not in metric.key and metric.key.startswith(prefixes):
                yield metric.key

    def table(self, pivot: _Pivot) -> Table | None:
        """Return the table of a pivot; None where the run has no such keys."""
        before, after = pivot.key.split("<row>")
        columns = "|".join(re.escape(name).replace(r"\*", r"(?:[^.]+)") for name in pivot.columns)
        found = re.compile(rf"{re.escape(before)}(.+?){re.escape(after)}({columns})")
        cells: dict[str, dict[str, Figure]] = {}
        for key in self.values:
            if match := found.fullmatch(key):
                self._put(cells, pivot, match[1], match[2], key)
        if pivot.whole:
            start = before.partition(".")[0]
            whole = re.compile(rf"{start}\.({columns})")
            for key in self.values:
                if match := whole.fullmatch(key):
                    self._put(cells, pivot, pivot.whole, match[1], key)
        used = [name for name in _ordered(pivot, cells) if _is_shown(cells, name)]
        figures = tuple(cells[row][name] for row in cells for name in used if name in cells[row])
        return Table(pivot.title, figures, pivot.note, pivot.first) if figures else None

    def _put(
        self, cells: dict[str, dict[str, Figure]], pivot: _Pivot, row: str, column: str, key: str
    ) -> None:
        value, heading = self.values[key], pivot.columns.get(column, "")
        item = _length(row)
        if isinstance(value, str):
            text = moment(value, self.step_ms) if re.match(r"\d{4}-\d\d-\d\dT", value) else value
            cell = Figure(item, text, quantity=heading or column)
        elif (figure := self.figure(key, note="")) is None:
            return
        else:
            if not heading:  # named by its metric, without the row
                name = figure.item.partition(",")[0] if heading is None else ""
                part = column.rpartition(".")[2].removesuffix("_mwh").replace("_", " ")
                heading = name or part.capitalize()
            kept = figure.pattern if column.endswith("power_factor") else ""
            cell = replace(figure, item=item, quantity=heading, pattern=kept, note="")
        cells.setdefault(item, {})[column] = cell


def _ordered(pivot: _Pivot, cells: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """Return the columns in the order of the pivot; those of a ``*`` as they come."""
    seen = dict.fromkeys(name for row in cells.values() for name in row)
    found = []
    for wanted in pivot.columns:
        before, star, after = wanted.partition("*")
        found += [name for name in seen if name == wanted
                  or (star and name.startswith(before) and name.endswith(after))]  # fmt: skip
    return list(dict.fromkeys(found))


def _is_shown(cells: Mapping[str, Mapping[str, Figure]], name: str) -> bool:
    """Return whether any row has more than nothing in a column."""
    return any(name in row and row[name].value not in (None, 0.0, "") for row in cells.values())


def _length(row: str) -> str:
    """Return a part of a key that is a length, in words."""
    if found := re.fullmatch(r"([\d.]+)(s|min)", row):
        return interval(round(float(found[1]) * (MS_PER_S if found[2] == "s" else MS_PER_MIN)))
    if found := re.fullmatch(r"([\d.]+)-([\d.]+|inf)Hz", row):
        return f"{found[1]} to {found[2]} Hz"
    return row


_SIGNED = (
    "poi.peak.reactive_mvar", "poi.reactive.max_mvar", "poi.reactive.min_mvar",
    "poi.peak.power_factor",
)  # fmt: skip
"""Keys that are drawn or supplied, lagging or leading, by the sign of reactive power."""

_FIRST = (
    "poi.headroom.use", "power.max_mw", "grid.ramps.intervals.600s.up.max_mw",
    "grid.ramps.intervals.600s.down.max_mw", "power.energy_mwh", "power.load_factor",
    "power.peak_to_average_ratio", "jobs.mean_queue_time_queued_h", "requests.incomplete_rps",
)  # fmt: skip
"""Keys that answer first."""


def _answer(view: RunView, limits: Sequence[LimitReport]) -> Section:
    """Return what heads every view of a run: the peak, the worst ramp, energy, and verdicts."""
    metered = bool(view.run.metrics.get("poi"))
    means = f"{interval(view.step_ms)} means"
    items = {
        "poi.headroom.use": "Use of the contract",
        "power.max_mw": f"Peak, {means}",
        "grid.ramps.intervals.600s.up.max_mw": "Worst rise within 10 min",
        "grid.ramps.intervals.600s.down.max_mw": "Worst fall within 10 min",
    }
    left_out = {"jobs.mean_queue_time_queued_h", "power.peak_to_average_ratio"} if metered else {
        "power.load_factor"}  # fmt: skip
    used, of_contract = view.values.get(_FIRST[0]), ""
    for unit in ("mw", "mva"):
        if used and (most := view.values.get(f"poi.headroom.contract_{unit}")):
            of_contract = f"{used * most:,.4g} of {most:,.4g} {unit.upper()}"
    notes = {"poi.headroom.use": of_contract}
    unserved, incoming = (view.values.get(f"requests.{n}_rps") for n in ("incomplete", "incoming"))
    if unserved and incoming:
        share = 100 * unserved / incoming
        notes["requests.incomplete_rps"] = f"{share:.2g} % of all"
    found = [
        view.figure(key, items.get(key, ""), notes.get(key, view.when(key)))
        for key in _FIRST
        if key not in left_out and (key != _FIRST[-1] or view.values.get(key))
    ]
    verdicts = tuple(
        Figure(
            report.name or "limits",
            report.verdict,
            key="verdict",
            note="; ".join(filter(None, (report.by_how_much(), report.counts()))),
        )
        for report in sorted(limits, key=LimitReport.rank)
    )
    words = [f"Power is taken at: {view.run.boundary()}."]
    words += [view.run.bands.words] if view.run.bands else []
    figures = (*verdicts, *filter(None, found))
    return Section("answer", "At a glance", figures, (), ("overview",), tuple(words))


def limits_section(reports: Sequence[tuple[Run, LimitReport, str]]) -> Section:
    """Return the verdict on each limit of runs, the worst first; several runs have labels."""
    many = len({label for _, _, label in reports}) > 1
    tables, shared = [], dict.fromkeys(reports[0][1].notes) if reports else {}
    for _, report, _ in reports:
        shared = {note: None for note in shared if note in report.notes and len(reports) > 1}
    for run, report, label in sorted(reports, key=lambda of: of[1].rank()):
        step_ms, figures = run.scenario.resolution_ms, list[Figure]()
        ranked = sorted(report.results, key=lambda of: -VERDICTS.index(of.verdict))
        for k, found in enumerate(ranked, start=1):
            item, least = f"{k}. {found.text}", "at least " if found.least else ""
            worst = f"{number(found.value, pattern_for([found.value]))} {found.unit}".strip()
            cells = {
                "Verdict": found.verdict,
                "Allowed": f"{least}{found.limit:g} {found.unit}".strip(),
                "Worst": worst,
                "Of the limit": f"{100 * found.use:,.0f} %" if found.use == found.use else NONE,
                "When": moment(found.time or None, step_ms),
                "Violations": f"{found.violations:,}",
                "Coverage, source, cause": "; ".join(
                    filter(None, (found.note, found.scope, found.source, found.cause))
                ),
            }
            figures += [Figure(item, text, quantity=name) for name, text in cells.items()]
        open_ = [("inconclusive", *of) for of in report.unchecked]
        open_ += [("not covered", *of) for of in report.outside]
        for k, (word, _, text, why) in enumerate(open_, start=len(report.results) + 1):
            figures += [
                Figure(f"{k}. {text}", word, quantity="Verdict"),
                Figure(f"{k}. {text}", why, quantity="Coverage, source, cause"),
            ]
        name = f"{report.name or 'limits'}: {report.verdict.upper()} ({report.counts()})"
        title = f"{label}: {name}" if many else name
        said = (report.origin, *(note for note in report.notes if note not in shared))
        note = " ".join(f"{text[:1].upper()}{text[1:]}." for text in said if text)
        tables.append(Table(title, tuple(figures), note, "Limit"))
    notes = (
        "Met: all of a limit that this kind of model covers is seen over a whole year, and nothing "
        "is beyond it. Inconclusive: the run shows a part alone, and nothing there is beyond it.",
        *(f"{text[:1].upper()}{text[1:]}." for text in shared),
    )
    return Section("limits", "Limits", (), tuple(tables), (), notes)


_ASKED = ("peak", "ramp up over 1 min", "ramp down over 1 min", "ramp up over 10 min",
          "ramp down over 10 min")  # fmt: skip


def worst_weeks(metrics: Mapping[str, Any]) -> list[tuple[list[str], str]]:
    """Return the events asked for by their week, and a time in it; not those of the peak's."""
    weeks: dict[tuple[int, int], tuple[list[str], str]] = {}
    for key, time, _ in causes_of(metrics):
        if (words := event_words(key)) in _ASKED:
            week = datetime.fromisoformat(time).isocalendar()[:2]
            weeks.setdefault(week, ([], time))[0].append(f"{words[:1].upper()}{words[1:]}")
    return [week for week in weeks.values() if "Peak" not in week[0]]


def _with_causes(section: Section, view: RunView) -> Section:
    """Return the section of ramps with why each of the worst events came about, each once."""
    per = W_PER_MW / view.unit.watts
    figures: dict[bool, list[Figure]] = {True: [], False: []}
    elsewhere = {name for names, _ in worst_weeks(view.run.metrics) for name in names}
    for key, time, cause in causes_of(view.run.metrics):
        words = event_words(key)
        item = f"{words[:1].upper()}{words[1:]}"
        shown = "worst-weeks" if item in elsewhere else "peak-week" if words in _ASKED else ""
        figures[words in _ASKED] += [
            Figure(item, cause["change_mw"] * per, view.unit.power, quantity="Change"),
            Figure(item, moment(time, view.step_ms), quantity="When", link=shown),
            Figure(item, cause_words(cause, view.unit), quantity="Causes"),
        ]
    note = (
        "By stream, service and stage: net, gross in brackets; a job counts from what its nodes "
        "draw idle."
    )
    why = Table("Why the worst events came about", tuple(figures[True]), note, "Event")
    others = Table("Why, of other lengths", tuple(figures[False]), note, "Event")
    grid = view.run.metrics.get("grid") or {}
    notes = [withheld(grid)] if grid else []
    if filled_h := grid.get("transient_h"):
        notes.append(
            f"The first {filled_h:,.1f} h, in which the run filled up from an empty facility, are "
            "left out of peaks, demand, ramps, swings, spectrum and event windows."
        )
    tables = (*(table for table in (why, others) if table.figures), *section.tables)
    return replace(section, tables=tables, notes=tuple(notes))


_LENGTH = re.compile(
    r"grid\.(?:at_step\.)?(?:(?:ramps|rolling_range)|(peaks|maximum_demand))\..*?(\d[\d.]*)(s|min)\."
)


def is_lower_bound(values: Mapping[str, Any], key: str) -> bool:
    """Return whether readings, or records of weather, are too coarse for the length in a key."""
    if (found := _LENGTH.match(key)) is None or (found[1] and not key.endswith("max_mw")):
        return False
    below = "interpolated_s" if found[1] else "lower_bound_below_s"
    length_s = float(found[2]) * (S_PER_MIN if found[3] == "min" else 1)
    return length_s < (values.get(f"grid.bandwidth.{below}") or 0.0)


def withheld(block: Mapping[str, Any]) -> str:
    """Return in one line what the run does not support or marks, and why."""
    reasons: dict[str, list[str]] = {}
    kinds = (
        ("demand over {interval_min} min", block["maximum_demand"]["absent"]),
        ("ramps over {interval_s:g} s", block["ramps"]["absent"]),
        ("swings within {window_s:g} s", block["rolling_range"]["absent"]),
        ("the spectrum from {low_hz:g} to {high_hz:g} Hz", block["spectrum"]["absent"]),
    )
    for form, absent in kinds:
        for entry in absent:
            reasons.setdefault(entry["reason"], []).append(form.format(**entry))
    parts = [f"{listed(names)} ({reason})" for reason, names in reasons.items()]
    bounds = [
        form.format(**entry)
        for form, entries in (
            ("ramps over {interval_s:g} s", block["ramps"]["intervals"]),
            ("swings within {window_s:g} s", block["rolling_range"]["windows"]),
        )
        for entry in entries
        if entry["lower_bound"]
    ]
    flagged = [
        f"{band['low_hz']:g} to {band['high_hz']:g} Hz ({band['flag_reason']})"
        for band in block["spectrum"]["bands"]
        if band["flagged"]
    ]
    note, window_s = block["bandwidth"]["note"], block["bandwidth"]["averaging_window_s"]
    records_s = block["bandwidth"].get("interpolated_s")
    why = f"clouds are not seen within {records_s:g} s, and " if records_s else ""
    words = [
        f"Withheld: {'; '.join(parts)}." if parts else "",
        f"Flagged: {listed(flagged)}." if flagged else "",
        f"Lower bounds: {listed(bounds)} ({why}the profiles average over {window_s:g} s)."
        if bounds
        else "",
        f"{note[:1].upper()}{note[1:]}.",
    ]
    return " ".join(filter(None, words))


_KINDS = {"reference": "reference (synthesised from published facts)", "measured": "measured"}


def provenance(run: Run) -> Section:
    """Return from where the numbers come."""
    manifest, scenario = run.manifest, run.scenario
    facility = scenario.facility
    profiles = (manifest.get("profiles") or {}).values()
    origins = [entry.get("provenance") or {} for entry in profiles]
    kinds = {kind: sum(o.get("kind") == kind for o in origins) for kind in _KINDS}
    bases = "; ".join(f"{count} {_KINDS[kind]}" for kind, count in kinds.items() if count)
    if n_scaled := sum(origin.get("power_factor", 1) != 1 for origin in origins):
        bases += f"; {n_scaled} of other GPUs, scaled by the TDP (not measured on these nodes)"
    samples = manifest.get("serving_samples") or {}
    versions = manifest.get("versions") or {}
    found = {
        "Power boundary": run.boundary(),
        "Power profiles": bases,
        "Their sources": "; ".join(dict.fromkeys(str(o.get("source")) for o in origins)),
        "Serving samples": "; ".join(
            filter(None, (_KINDS.get(str(samples.get("kind")), ""), str(samples.get("source", ""))))
        ),
        "Serving curves": ", ".join(sorted(manifest.get("curves") or {})),
        "Input files": ", ".join(sorted(manifest.get("input_files") or {})),
        "Assumed terms": "; ".join(_grouped(manifest.get("assumed") or (), run)),
        "Nodes": "; ".join(f"{p.n_nodes:,} in {name}" for name, p in facility.pools.items()),
        "Start": f"{scenario.start:%Y-%m-%d %H:%M} "
        f"({facility.time_zone or f'UTC{facility.utc_offset}'})",
        "Resolution": f"{interval(scenario.resolution_ms)} means",
        "Run": f"scenario SHA-256 {manifest.get('scenario_sha256')}, seed "
        f"{manifest.get('seed')}, engine {manifest.get('engine')}, diploee "
        f"{manifest.get('diploee_version')}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Run folder": run.folder.absolute().name,
    }
    figures = tuple(Figure(name, text) for name, text in found.items() if text)
    return Section("provenance", "Where the numbers come from", figures, folded=True)


def _grouped(keys: Iterable[str], run: Run) -> Iterator[str]:
    """Yield the assumed keys by their part of the site, those of several alike once."""
    stages = run.scenario.facility.stages
    groups: dict[str, dict[str, None]] = {}
    for key in keys:
        parts = key.removeprefix("facility.").split(".")
        if parts[0] == "stages":
            parts = [stages[int(parts[1])].kind, *parts[2:]]
        elif parts[0] == "node_types":
            parts = [" ".join(parts[1:3]), *parts[3:]]
        parts = [part for part in parts if not part.isdigit()]
        if parts[0] in ("streams", "request_streams"):
            parts = [".".join(parts[1:-1]), parts[-1]]
        groups.setdefault(parts[0], {})[".".join(parts[1:])] = None
    for group, names in groups.items():
        yield f"{group}: {', '.join(names)}"
