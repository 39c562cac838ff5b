"""Every reader of foreign text with a small good file; one joins the kit with an entry
here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from job_log_writers import JOBS, WRITERS, LogWriter

from diploee.importers import read_job_log, read_request_trace
from diploee.importers.power_logs.generic_csv import import_plain
from diploee.importers.power_logs.mlperf_power import read_node_log
from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi
from diploee.importers.power_logs.wattameter import (
    WattAMeterLog,
    import_wattameter,
    parse_log,
)
from diploee.importers.serving.service_curves import load_power_curve
from diploee.importers.signals import read_signal
from diploee.importers.site_tables import (
    read_cooling_points,
    read_reactive_table,
    read_voltage,
)
from diploee.importers.text.file_bytes import read_bytes
from diploee.integrations.openg2g import TrainingTrace
from diploee.integrations.zeus.traces import (
    read_groups,
    read_power_trace,
    read_train_trace,
)
from diploee.loads.jobs.job_log import JobLog
from diploee.loads.services.request_trace import RequestTrace
from diploee.profiles import PowerProfile
from diploee.scenario import SignalFile


@dataclass(frozen=True)
class TextReader:
    """A reader of one format, with the name and the content of a good file."""

    name: str
    file: str
    text: str
    read: Callable[[Path], Any]
    takes_folders: bool = False  # of such files, too


def plain(value: Any) -> Any:
    """Return a result as nested lists, without what tells the file it comes from."""
    if isinstance(value, np.ndarray):
        return [repr(item) for item in value.tolist()]  # NaN is NaN
    if hasattr(value, "__dataclass_fields__"):
        names = [name for name in value.__dataclass_fields__ if name not in OF_THE_FILE]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return repr(value)


OF_THE_FILE = ("source", "path", "sha256", "source_sha256", "line", "where")


def _job_log(writer: LogWriter) -> TextReader:
    jobs = [job for job in JOBS if job.state in writer.states]
    text = "".join(f"{line}\n" for line in writer.lines(jobs))

    def read(path: Path) -> JobLog:
        return read_job_log(path, writer.name, **writer.options)

    return TextReader(f"jobs-{writer.name}", "log", text, read)


def _trace(name: str, text: str) -> TextReader:
    def read(path: Path) -> RequestTrace:
        return read_request_trace(path, name)

    return TextReader(
        f"requests-{name}", "trace", text, read, takes_folders=name == "servegen"
    )


TRACES = {
    "azure-llm": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.0000000,5,6\n"  # noqa: E501
    "2024-05-10 00:01:59.9999999,7,8\n",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,100,1,101,API log\n",
    "mooncake": '{"timestamp": 0, "input_length": 5, "output_length": 6, "hash_ids": [1]}\n'  # noqa: E501
    '{"timestamp": 61000, "input_length": 7, "output_length": 8, "hash_ids": []}\n',
    "servegen": "0,2.0,1,Gamma,1,1\n600,1.0,1,Gamma,1,1\n1200,0,,\n",
    "csv": "unix_s;service;output_tokens\n1700000000;chat;5\n1700000060;code;7\n",
}


def _plain_power(path: Path) -> PowerProfile:
    return import_plain(path, workload="w", profile_id="p", n_nodes=1)


def _nvidia_smi(path: Path) -> PowerProfile:
    return import_nvidia_smi([path], workload="w")


def _wattameter(path: Path) -> WattAMeterLog:
    return parse_log(path, read_bytes(path))


POWER_LOGS = (
    TextReader(
        "power-wattameter",
        "nvml_node_a.log",
        (
            "# a preamble\n# timestamp reading-time[ns]  gpu-0[mW] gpu-0[C]\n"
            "  2025-10-07_09:38:40.617145 45560 70000 41\n2025-10-07_09:38:40.717145 "
            "45560 71000 41\n"
        ),
        _wattameter,
    ),
    TextReader(
        "power-codecarbon",
        "power.log",
        "# timestamp  time (s)  cpu 0 (W) gpu 0 (W)\n"
        + "".join(f"2025-10-07_09:38:4{i}.617 {i} 101.5 400.0\n" for i in range(9)),
        lambda path: import_wattameter([path], workload="w"),
        takes_folders=True,
    ),
    TextReader(
        "power-plain",
        "job.csv",
        "t_s,note,power_w\n0,a,100\n1,b,250.5\n2,c,0\n",
        _plain_power,
    ),
    TextReader(
        "power-nvidia-smi",
        "smi.csv",
        "timestamp, power.draw [W]\n"
        + "".join(f"2025/05/14 08:50:{19 + i}.056, {79.6 + i} W\n" for i in range(6)),
        _nvidia_smi,
        takes_folders=True,
    ),
    TextReader(
        "power-mlperf-node",
        "node_0.txt",
        (
            ':::MLLOG {"time_ms": 1715257320207, "key": "power_measurement_start", '
            '"value": "null"}\n'
            ':::MLLOG {"time_ms": 1715257322213, "key": "power_reading", "value": '
            "2795}\n"
            ':::MLLOG {"time_ms": 1715257324219, "key": "power_reading", "value": '
            "7240.5}\n"
        ),
        read_node_log,
    ),
)

OTHERS = (
    TextReader(
        "zeus-train",
        "summary_train.csv",
        (
            "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,"
            "target_epoch\n"
            "toy,net,8,sgd,0.1,1,0.5,4\ntoy,net,16,sgd,0.1,1,0.5,\n"
        ),
        read_train_trace,
    ),
    TextReader(
        "zeus-power",
        "summary_power_toy.csv",
        (
            "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,"
            "average_power\n"
            "toy,net,8,sgd,100,9,90\ntoy,net,8,sgd,200,8.5,150\n"
        ),
        read_power_trace,
    ),
    TextReader(
        "zeus-groups",
        "groups.csv",
        (
            "group,start_time,end_time,dataset,runtime_ratio\n1,0,10,toy,1\n"
            "1,5,20,toy,1.5\n"
        ),
        read_groups,
    ),
    TextReader(
        "training-trace", "t.csv", "t_s,power_W\n0,1\n1,2\n", TrainingTrace.load
    ),
    TextReader(
        "curve",
        "curve.csv",
        (
            "# measured\nrequest_rate_rps,mean_power_w,peak_power_w\n1,5,6\n2,6,7\n"
            "3,7,7.5\n"
        ),
        lambda path: load_power_curve(path.name, path.parent)[0],
    ),
    TextReader(
        "cooling-table",
        "cooling.csv",
        (
            "temperature_c,load,cooling_ratio\n0,0.5,0.05\n0,1,0.06\n25,0.5,0.2\n"
            "25,1,0.25\n"
        ),
        read_cooling_points,
    ),
    TextReader(
        "event",
        "e.csv",
        "t_s,voltage_pu,frequency_hz\n0,1,60\n1,0.4,59.9\n2,1,60\n",
        read_voltage,
    ),
    TextReader(
        "reactive", "q.csv", "p_mw,q_mvar\n0,-0.1\n0.5,0\n1,0.25\n", read_reactive_table
    ),
)

SIGNALS = {
    "electricity_maps": (
        "Datetime (UTC),Zone id,Carbon intensity gCO\u2082eq/kWh (direct),Data "
        "estimated\n2023-01-01 00:00,DE,300.5,false\n2023-01-01 01:00,DE,310,false\n"
        "2023-01-01 02:00,DE,290,true\n"
    ),
    "caiso": "INTERVALSTARTTIME_GMT,INTERVALENDTIME_GMT,NODE,LMP_TYPE,MW\n"
    "2023-01-01T08:00:00-00:00,2023-01-01T08:05:00-00:00,N1,LMP,30.5\n"
    "2023-01-01T08:00:00-00:00,2023-01-01T08:05:00-00:00,N1,MCC,1\n"
    "2023-01-01T08:05:00-00:00,2023-01-01T08:10:00-00:00,N1,LMP,-3\n",
    "nyiso": (
        '"Time Stamp","Name","PTID","LBMP ($/MWHr)"\n"11/05/2023 '
        '00:00","WEST",61752,20.5\n'
        '"11/05/2023 01:00","WEST",61752,21\n"11/05/2023 01:00","WEST",61752,22\n'
        '"11/05/2023 02:00","WEST",61752,23\n'
    ),
    "gridstatus": "Interval Start,Interval End,Location,LMP\n"
    "2023-01-01 00:00:00-08:00,2023-01-01 01:00:00-08:00,HUB,40\n"
    "2023-01-01 01:00:00-08:00,2023-01-01 02:00:00-08:00,HUB,41\n",
    "csv": (
        "Datetime;Price (USD/MWh)\n2023-01-01T00:00:00+01:00;55\n"
        "2023-01-01T01:00:00+01:00;44\n"
    ),
}


def _signal(name: str, text: str) -> TextReader:
    def read(path: Path) -> Any:
        return read_signal(
            path,
            "carbon" if name == "electricity_maps" else "price",
            SignalFile(file=path.name),
        )

    return TextReader(f"signal-{name}", "signal.csv", text, read)


READERS: tuple[TextReader, ...] = (
    *(_signal(name, text) for name, text in SIGNALS.items()),
    *OTHERS,
    *POWER_LOGS,
    *map(_job_log, WRITERS),
    *(_trace(name, text) for name, text in TRACES.items()),
)
