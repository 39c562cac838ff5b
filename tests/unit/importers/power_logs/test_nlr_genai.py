"""The published data set in small: found by its layout, read run by run, broken runs
counted."""

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from builders import write_scenario
from command_line import call
from samples import WATTAMETER

import diploee
from diploee.base.errors import LogFormatError
from diploee.importers.power_logs.nlr_genai import (
    find_runs,
    import_nlr_genai,
    workload_from_name,
)
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles import ProfileLibrary, add_profile
from diploee.profiles.profile import PowerBoundary

START = datetime(2025, 10, 7, 9, 38, 40)
RAW = "00_raw_datasets"
NVML = (
    "# timestamp                  reading-time[ns] gpu-0[mW] gpu-1[mW] gpu-0[C] "
    "gpu-1[C]"
)
RAPL = (
    "# timestamp                  reading-time[ns] cpu-0[uJ] cpu-0-core[uJ] cpu-0[W] "
    "cpu-0-core[W]"
)


def stamp(t_s):
    return (START + timedelta(seconds=float(t_s))).strftime("%Y-%m-%d_%H:%M:%S.%f")


def swing_w(t_s):
    """A cycle of 10.5 s between two levels, as of the fine-tuning, of one GPU."""
    return np.where((t_s % 10.5) < 4.7, 676.0, 542.0)


def write_node(folder, name, late_s=0.0, duration_s=120.0, cpu_w=250.0):
    """Two GPUs of which the second draws 100 W, and one CPU package, read every 0.2 s."""  # noqa: E501
    folder.mkdir(parents=True, exist_ok=True)
    t_s = np.round(np.arange(0, duration_s + 0.1, 0.2) + late_s, 6)
    gpus = [f"  {stamp(t)} 9 {round(swing_w(t) * 1000)} 100000 40 41" for t in t_s]
    cpus = [
        (
            f"  {stamp(t)} 9 {7_000_000_000 + round((t - late_s) * cpu_w * 1e6)} 5 "
            f"{cpu_w} 0.1"
        )
        for t in t_s[:-1]
    ]
    cpus.append(
        f"  {stamp(t_s[-1])} 9 "
        f"{7_000_000_000 + round((t_s[-1] - late_s) * cpu_w * 1e6)} 6"
    )
    for kind, header, rows in (("nvml", NVML, gpus), ("rapl", RAPL, cpus)):
        (folder / name.format(kind=kind)).write_text("\n".join([header, *rows]) + "\n")


def write_raw(root, workload, n_nodes, slurm_id, **options):
    folder = root / RAW / f"training_{workload}" / f"{n_nodes}node"
    for node in range(n_nodes):
        name = (
            f"{{kind}}_wattameter_emissions_parsed_slurmid_{slurm_id}"
            f"_node_x3000c0s{node}.log"
        )
        write_node(folder, name, late_s=0.07 * node, **options)
    return folder


@pytest.fixture
def dataset(tmp_path):
    """Two classes, served models to leave, one broken run."""
    root = tmp_path / "data"
    write_raw(root, "llama2_70b_lora", 2, 111)
    write_raw(root, "llama2_70b_lora", 2, 112, duration_s=60.0)
    write_raw(root, "stable_diffusion", 1, 201)
    broken = write_raw(root, "llama2_70b_lora", 4, 113)
    next(broken.glob("rapl*_113_node_x3000c0s2.log")).unlink()
    write_node(
        root / RAW / "inference_offline_llama3_70b" / "a", "{kind}_wattameter.log"
    )
    return root


def ids(profiles):
    return sorted(profile.profile_id for profile in profiles)


def library(dataset, tmp_path):
    diploee.import_profile(dataset, "nlr-genai", out=tmp_path / "library")
    return ProfileLibrary.open(tmp_path / "library")


def test_runs_are_found_by_their_folders_and_broken_ones_named(dataset):
    done = import_nlr_genai(dataset)
    assert ids(done) == [
        "llama2_70b_lora-2n-111",
        "llama2_70b_lora-2n-112",
        "stable_diffusion-1n-201",
    ]
    (skipped,) = done.skipped
    assert skipped.place == "llama2_70b_lora-4n-113"
    assert "0 logs of CPU power of its node" in skipped.problem


def test_what_many_runs_lack_is_named_once(tmp_path):
    for job in range(4):
        folder = write_raw(
            tmp_path / "data", "llama2_70b_lora", 1, 100 + job, duration_s=2.0
        )
        if job:
            next(folder.glob(f"rapl*_{100 + job}_node*.log")).unlink()
    ended = call(
        "profiles", "import", "nlr-genai", tmp_path / "data", "--out", tmp_path / "lib"
    )
    assert ended.code == 0
    assert "3 runs skipped:\n" in ended.out


def test_power_of_a_job_is_the_sum_over_its_nodes(dataset, tmp_path):
    profile = library(dataset, tmp_path).get("llama2_70b_lora-2n-111")
    t_s = np.arange(0.07, 120.0, 0.001)
    expected_w = 2 * (swing_w(t_s).mean() + 100 + 250)
    assert profile.mean_power_w == pytest.approx(expected_w, rel=2e-3)
    assert (profile.dt_ms, profile.duration_ms) == (100, 119_900)
    origin = profile.provenance
    assert (origin.kind, origin.power_boundary) == ("measured", PowerBoundary.DEVICES)
    assert (origin.sampling_interval_s, origin.bandwidth_hz) == (0.2, 0.44)
    assert origin.source.startswith(
        "data set doi:10.7799/3025227 of arXiv:2604.07345, 00_raw"
    )
    assert origin.licence.startswith(
        "CC BY 4.0 as a mirror states; the origin has a notice of"
    )


def test_folders_without_usable_runs_are_named(dataset, tmp_path):
    (dataset / RAW / "training_empty").mkdir()
    write_node(
        dataset / RAW / "training_llama2_70b_lora" / "many",
        "{kind}_slurmid_7_node_a.log",
    )
    found = {run.place: run.problem for run in import_nlr_genai(dataset).skipped}
    assert len(found) == 3
    assert found[f"{RAW}/training_empty"] == "no NVML or RAPL logs in this folder"
    assert "no folder such as '16node'" in found[f"{RAW}/training_llama2_70b_lora/many"]


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("training_llama2_70b_lora", "llama2_70b_lora"),
        ("Llama-2-70B-LoRA", "llama2_70b_lora"),
        ("Stable Diffusion v2", "stable_diffusion"),
        ("training_bert", "bert"),
    ],
)
def test_classes_get_the_names_of_the_reference_profiles(name, workload):
    assert workload_from_name(name) == workload


def test_logs_of_a_node_in_the_layout_are_those_of_the_importer_of_logs(
    tmp_path, sample
):
    """Whose energy another test compares with an independent sum."""
    logs = sample(WATTAMETER)
    folder = tmp_path / "data" / RAW / "training_stable_diffusion" / "1node"
    folder.mkdir(parents=True)
    for kind in ("nvml", "rapl"):
        text = (logs / f"{kind}_wattameter.log").read_text()
        (folder / f"{kind}_wattameter_parsed_slurmid_9_node_a.log").write_text(text)
    (profile,) = import_nlr_genai(tmp_path / "data")
    assert profile.profile_id == "stable_diffusion-1n-9"
    direct = import_wattameter([logs], workload="w")
    assert profile.sha256 == direct.sha256
    assert direct.power_w.size > 100


def test_parts_of_the_data_set_and_folders_above_it_are_found(dataset, tmp_path):
    for folder in (tmp_path, dataset, dataset / RAW):
        assert len(find_runs(folder)) == 4


def test_what_is_no_data_set_is_refused(dataset, tmp_path):
    with pytest.raises(LogFormatError, match="no folder '00_raw"):
        import_nlr_genai(tmp_path / "nowhere")
    (tmp_path / "empty" / RAW).mkdir(parents=True)
    with pytest.raises(LogFormatError, match="no run of training that can be read"):
        import_nlr_genai(tmp_path / "empty")
    for log in dataset.rglob("*.log"):
        log.write_text("nothing")
    with pytest.raises(LogFormatError, match=r"can be read \(first problem: llama2"):
        import_nlr_genai(dataset / RAW)


def test_the_command_imports_what_can_be_compared_class_by_class(dataset, tmp_path):
    out = tmp_path / "library"
    smaller = tmp_path / "reference"  # two of the shipped profiles, to be quick
    shipped = ProfileLibrary.open("reference")
    for name in ("stable_diffusion-2n-1", "llama2_70b_lora-16n-1"):
        add_profile(shipped.get(name), smaller)
    write_raw(dataset, "stable_diffusion", 2, 202)
    ended = call("profiles", "import", "nlr-genai", dataset, "--out", out)
    assert ended.code == 0
    assert "1 run skipped:\n  llama2_70b_lora-4n-113: " in ended.out
    assert ended.out.endswith(f"diploee profiles compare {out} reference\n")
    ended = call("profiles", "compare", out, smaller)
    lines = [line.split() for line in ended.out.splitlines()]
    row = [words[:2] for words in lines].index(["stable_diffusion", "2n"])
    mean = lines[row + 1]
    assert mean[:2] == ["mean", "[kW]"]
    ours = ProfileLibrary.open(out).get("stable_diffusion-2n-202").mean_power_w
    theirs = shipped.get("stable_diffusion-2n-1").mean_power_w
    assert float(mean[2]) == pytest.approx(ours / 1000, abs=0.02)
    assert float(mean[3]) == pytest.approx(theirs / 1000, abs=6e-4)
    assert float(mean[4].rstrip("%")) == pytest.approx(
        100 * (ours / theirs - 1), abs=0.1
    )


def test_a_scenario_runs_on_the_measured_library(dataset, tmp_path):
    library(dataset, tmp_path)
    classes = [{"workload": "llama2_70b_lora", "n_nodes": 2, "probability": 1.0}]
    changes = {"duration": "1 h", "streams.training.classes": classes}
    path = write_scenario(tmp_path / "site.yaml", changes)
    out = tmp_path / "run"
    ended = call("run", path, "--profiles", tmp_path / "library", "--out", out)
    assert ended.code == 0, ended.err
    profiles = json.loads((out / "manifest.json").read_text())["profiles"].values()
    assert {profile["provenance"]["kind"] for profile in profiles} == {"measured"}
