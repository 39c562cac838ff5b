"""The logs that a reader of the README and of pages of `docs` is said to have."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

LOG_START = datetime(2025, 10, 7, 9, 38, 40, 617_145)


def write_logs(folder: Path, n_nodes: int = 2, n_rows: int = 301) -> None:
    """Write the logs of a job of 30 s as WattAMeter does: a GPU at 600 W, a CPU at 150
    W a node."""
    folder.mkdir()
    for node in range(n_nodes):
        for kind, tag, first, step in (
            ("nvml", "gpu-0[mW]", 600_000, 0),
            ("rapl", "cpu-0[uJ]", 5_000_000_000, 15_000_000),
        ):
            rows = [
                (
                    "  "
                    f"{LOG_START + k * timedelta(milliseconds=100):%Y-%m-%d_%H:%M:%S.%f} 45560 {first + k * step}"  # noqa: E501
                )
                for k in range(n_rows)
            ]
            text = "\n".join([f"# timestamp reading-time[ns] {tag}", *rows, ""])
            (folder / f"{kind}_wattameter_slurmid_4711_node_x{node}.log").write_text(
                text, "utf-8"
            )


EPOCH_S, N_TICKS = 1_709_539_200, 40


def write_telemetry(folder: Path) -> None:
    """Write what operators' tools print, as `docs/telemetry.md` has it: 40 readings of
    1 or 10 s.

    Two devices at 300 and 500 W, or one at 800 W.
    """
    ticks = range(N_TICKS)
    rows = {
        "dmon.txt": ["#Entity   POWER", "ID        W"]
        + [f"GPU {gpu}     {300 + 200 * gpu}.000" for _ in ticks for gpu in range(2)],
        "ipmi.txt": [
            line
            for k in ticks
            for line in (
                str(EPOCH_S + 10 * k),
                "",
                "    Instantaneous power reading:                   800 Watts",
                "    Minimum during sampling period:                310 Watts",
                "    Power reading state is:                   activated",
            )
        ],
        "redfish.jsonl": [
            json.dumps(
                {
                    "time": EPOCH_S + 10 * k,
                    "chassis": f"rack1-u{unit}",
                    "Power": {
                        "PowerControl": [{"PowerConsumedWatts": 300 + 200 * unit}],
                        "PowerSupplies": [{"PowerInputWatts": 150 + 100 * unit}] * 2,
                    },
                }
            )
            for k in ticks
            for unit in range(2)
        ],
        "amd.csv": ["timestamp,gpu,socket_power,gfx_voltage"]
        + [
            f"{EPOCH_S + k},{gpu},{power_w},700"
            for k in ticks
            for gpu, power_w in enumerate((300, 0, 500, "N/A"))
        ],
        "energy.csv": [
            "Job, Step, Node, Series, Date_Time, ElapsedTime, Power, CPU_Frequency"
        ]
        + [
            (
                f"4711, 0, n{node}, Energy, 2024-03-04T09:00:00, {10 * k}, "
                f"{300 + 200 * node}, 1"
            )
            for k in ticks
            for node in range(2)
        ],
        "spl.txt": [
            (
                f"Time,03-04-2024 09:00:{k:02}.100,Watts,800.0,Volts,208.1,Amps,3.9,"
                "PF,0.98,Mark,run"
            )
            for k in ticks
        ],
    }
    for name, lines in rows.items():
        (folder / name).write_text("\n".join([*lines, ""]), "utf-8")
    series = [
        {
            "metric": {
                "__name__": "DCGM_FI_DEV_POWER_USAGE",
                "gpu": "0",
                "Hostname": f"n{host}",
            },
            "values": [[EPOCH_S + 10 * k, f"{300 + 200 * host}"] for k in ticks],
        }
        for host in range(2)
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    (folder / "query_range.json").write_text(json.dumps(answer), "utf-8")
