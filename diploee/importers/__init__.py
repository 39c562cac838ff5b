"""Readers of foreign files, one file per format: job logs, request traces, power, benchmarks.

Names are imported on first use: the command line lists its options without loading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.errors import LogFormatError as LogFormatError
    from diploee.importers.job_logs.raw_log import JobLogFormat as JobLogFormat
    from diploee.importers.job_logs.raw_log import JobLogOptions as JobLogOptions
    from diploee.importers.job_logs.raw_log import RawJobs as RawJobs
    from diploee.importers.job_logs.raw_log import RawLog as RawLog
    from diploee.importers.job_logs.read import JOB_LOG_FORMATS as JOB_LOG_FORMATS
    from diploee.importers.job_logs.read import read_job_log as read_job_log
    from diploee.importers.power_logs.curves import SkippedRun as SkippedRun
    from diploee.importers.power_logs.mlperf_power import import_mlperf_power as import_mlperf_power
    from diploee.importers.power_logs.nlr_genai import import_nlr_genai as import_nlr_genai
    from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi as import_nvidia_smi
    from diploee.importers.power_logs.options import MLPerfOptions as MLPerfOptions
    from diploee.importers.power_logs.options import NvidiaSmiOptions as NvidiaSmiOptions
    from diploee.importers.power_logs.options import PlainOptions as PlainOptions
    from diploee.importers.power_logs.options import WattAMeterOptions as WattAMeterOptions
    from diploee.importers.power_logs.plain import import_plain as import_plain
    from diploee.importers.power_logs.wattameter import import_wattameter as import_wattameter
    from diploee.importers.request_traces.read import TRACE_FORMATS as TRACE_FORMATS
    from diploee.importers.request_traces.read import read_request_trace as read_request_trace
    from diploee.importers.request_traces.totals import TraceFormat as TraceFormat
    from diploee.importers.serving.batches import load_batches as load_batches
    from diploee.importers.serving.service_curves import load_latency_curve as load_latency_curve
    from diploee.importers.serving.service_curves import load_power_curve as load_power_curve
    from diploee.importers.text.text import Text as Text
    from diploee.importers.weather_files import read_weather as read_weather
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
