"""Readers of real counters: RAPL on a made-up powercap tree, NVML on a made-up driver."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_sensors import Clock

from diploee.errors import InputError
from diploee.profiles.record import Sampler, find_sensors, recorded_profile
from diploee.profiles.record.nvml import NOT_INSTALLED, find_gpus
from diploee.profiles.record.rapl import find_cpus

RANGE_UJ = 65_532_610_987


def zone(root, folder, name, energy_uj=0, range_uj=RANGE_UJ):
    path = root / folder
    path.mkdir(parents=True)
    for file, text in (
        ("name", name),
        ("energy_uj", energy_uj),
        ("max_energy_range_uj", range_uj),
    ):
        (path / file).write_text(f"{text}\n")
    return path / "energy_uj"


@pytest.fixture
def powercap(tmp_path):
    """Two packages with a core in one, memory, the platform, and the same package once more."""
    root = tmp_path / "powercap"
    zone(root, "intel-rapl:0", "package-0", 5_000_000)
    zone(root, "intel-rapl:0:0", "core", 1)
    zone(root, "intel-rapl:1", "package-1", 7_000_000)
    zone(root, "intel-rapl:1:0", "dram", 1)
    zone(root, "intel-rapl:2", "psys", 1)
    zone(root, "intel-rapl-mmio:0", "package-0", 1)
    (root / "intel-rapl").mkdir()
    return root


def test_packages_alone_are_read_each_once(powercap):
    sensors, why = find_cpus(powercap)
    assert why == ""
    assert [sensor.device for sensor in sensors] == ["cpu-0", "cpu-1"]
    assert [sensor.read().energy_j for sensor in sensors] == [5.0, 7.0]
    assert all(np.isnan(sensor.read().power_w) for sensor in sensors)
    assert sensors[0].counter_range_j == pytest.approx(65_532.610987)


def test_wrap_of_a_package_keeps_its_energy(powercap):
    """100 W and 50 W for 40 s; the first counter wraps after 15 s."""
    sensors, _ = find_cpus(powercap)
    clock = Clock(end_s=40.0)
    files = [sensor.counter for sensor in sensors]

    def wait(seconds):
        done = clock.wait(seconds)
        for file, power_w, start_uj in zip(
            files, (100, 50), (RANGE_UJ - 1_500_000_000, 0), strict=True
        ):
            file.write_text(f"{(start_uj + round(clock.t_s * power_w * 1e6)) % RANGE_UJ}\n")
        return done

    clock.end_s = -1.0
    wait(0.0)
    clock.end_s = 40.0
    sampler = Sampler(sensors, 0.5, clock)
    sampler.run(wait)
    profile = recorded_profile(sampler.samples, sensors, workload="w", profile_id="p", step_ms=500)
    assert profile.energy_j == pytest.approx(150 * 40, rel=1e-6)
    np.testing.assert_allclose(profile.power_w, 150, rtol=1e-5)
    assert profile.provenance.counts["counter_wraps"] == 1


def test_counters_that_can_not_be_read_are_a_reason_not_an_error(tmp_path, monkeypatch, powercap):
    sensors, why = find_cpus(tmp_path / "nowhere")
    assert (sensors, why) == ([], f"no energy counters under {tmp_path / 'nowhere'}")
    (powercap / "intel-rapl:0" / "energy_uj").write_text("x")
    (powercap / "intel-rapl:1" / "energy_uj").unlink()
    sensors, why = find_cpus(powercap)
    assert sensors == []
    assert "intel-rapl:1 can't be read (FileNotFoundError)" in why
    (powercap / "intel-rapl:0" / "energy_uj").write_text("1000000")
    (sensor,), _ = find_cpus(powercap)
    sensor.counter.unlink()
    assert np.isnan(sensor.read().energy_j)

    def denied(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.read_text", denied)
    assert find_cpus(powercap)[1] == f"the counters under {powercap} are readable for root only"


class NVMLError(Exception):
    def __init__(self, code):
        self.value = code

    def __str__(self):
        return {999: "Driver Not Loaded", 3: "Not Supported"}[self.value]


def driver(n_gpus=2, instant=True, usage=True, counter=True, name="NVIDIA H100", architecture=9):
    """What stands for pynvml: GPU i at 100 (i + 1) W, 50 W by the 1 s average."""

    def refuse(allowed):
        if not allowed:
            raise NVMLError(3)

    def fields(handle, ids):
        assert ids == [186]
        value = SimpleNamespace(uiVal=100_000 * (handle + 1), ulVal=0, dVal=0.0)
        return [SimpleNamespace(nvmlReturn=0 if instant else 3, valueType=1, value=value)]

    def power_usage(handle):
        refuse(usage)
        return 50_000

    def energy(handle):
        refuse(counter)
        return 123_456 * (handle + 1)

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_SUCCESS=0,
        NVML_ERROR_NOT_SUPPORTED=3,
        NVML_FI_DEV_POWER_INSTANT=186,
        NVML_DEVICE_ARCH_AMPERE=7,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: n_gpus,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetName=lambda handle: name,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}aaa-bbb",
        nvmlSystemGetDriverVersion=lambda: b"550.54",
        nvmlDeviceGetFieldValues=fields,
        nvmlDeviceGetPowerUsage=power_usage,
        nvmlDeviceGetTotalEnergyConsumption=energy,
        nvmlDeviceGetArchitecture=lambda handle: architecture,
    )


@pytest.fixture(autouse=True)
def no_visible_devices(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_give_instantaneous_power_and_their_counter():
    sensors, why = find_gpus(nvml=driver())
    assert why == ""
    assert [sensor.read() for sensor in sensors] == [(100.0, 123.456), (200.0, 246.912)]
    assert sensors[1].device == "gpu-1"
    assert sensors[0].label == "NVIDIA H100 (driver 550.54)"
    assert sensors[0].averaging_window_s == 0.0


@pytest.mark.parametrize(
    ("name", "architecture", "window_s"),
    [("NVIDIA H100", 9, 1.0), ("NVIDIA A100-SXM4-80GB", 7, 0.0), ("NVIDIA A10G", 7, 1.0),
     ("Tesla V100", 5, 0.0)],
)  # fmt: skip
def test_an_older_driver_is_taken_at_its_average(name, architecture, window_s):
    nvml = driver(1, instant=False, name=name, architecture=architecture)
    (sensor,), _ = find_gpus(nvml=nvml)
    assert sensor.read().power_w == 50.0
    assert sensor.averaging_window_s == window_s


def test_counter_alone_is_enough_and_nothing_is_a_reason():
    (sensor,), _ = find_gpus(nvml=driver(1, instant=False, usage=False))
    assert np.isnan(sensor.read().power_w)
    assert sensor.averaging_window_s is None
    nothing = driver(1, instant=False, usage=False, counter=False)
    assert find_gpus(nvml=nothing) == ([], "GPU 0: Not Supported")
    assert find_gpus(nvml=driver(0)) == ([], "none in this machine")

    def not_loaded():
        raise NVMLError(999)

    broken = driver()
    broken.nvmlInit = not_loaded
    assert find_gpus(nvml=broken) == ([], "Driver Not Loaded")


@pytest.mark.parametrize(
    ("visible", "devices"),
    [("1", [1]), ("2,0", [2, 0]), ("GPU-2aaa", [2]), ("", [0, 1, 2]), ("MIG-x", [0, 1, 2]),
     ("0,-1,1", [0]), ("9", [])],
)  # fmt: skip
def test_gpus_that_the_command_does_not_see_are_left_out(monkeypatch, visible, devices):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    sensors, why = find_gpus(nvml=driver(3))
    assert [sensor.device for sensor in sensors] == [f"gpu-{number}" for number in devices]
    assert (why == "") == bool(devices)
    assert len(find_gpus([0, 2], nvml=driver(3))[0]) == 2


def test_missing_gpus_and_packages_are_named():
    with pytest.raises(InputError, match="no GPU 7, expected 0 to 1"):
        find_gpus([7], nvml=driver())
    assert find_gpus([], nvml=driver()) == ([], "not asked for")


def test_without_the_package_the_reason_says_how_to_get_it(monkeypatch, tmp_path):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("diploee.profiles.record.nvml.import_module", missing)
    assert find_gpus() == ([], NOT_INSTALLED)
    with pytest.raises(InputError) as caught:
        find_sensors(powercap=tmp_path)
    assert str(caught.value) == (
        f"no readable power sensor (GPUs: {NOT_INSTALLED}; CPUs: no energy counters under "
        f"{tmp_path}), so the command was not run"
    )


def test_real_nvml_package_has_every_name_that_is_used():
    nvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for name in vars(driver()):
        assert hasattr(nvml, name), name
    assert nvml.NVML_FI_DEV_POWER_INSTANT == 186
    value = nvml.c_nvmlFieldValue_t()
    value.valueType, value.value.uiVal = nvml.NVML_VALUE_TYPE_UNSIGNED_INT, 72_500
    assert (value.nvmlReturn, value.value.uiVal) == (nvml.NVML_SUCCESS, 72_500)
    assert nvml.NVML_VALUE_TYPE_UNSIGNED_INT == 1
