"""Reading traces, and joining those of training and power: what is kept, counted,
refused."""

from dataclasses import replace

import numpy as np
import pytest
from samples import ZEUS
from zeus_builders import (
    GROUP_HEADER,
    GROUPS,
    HAND_POWER,
    HAND_TRAIN,
    POWER_HEADER,
    SPEC,
    TRAIN_HEADER,
    hand_workload,
    traces,
    write,
)

from diploee.base.errors import LogFormatError, WorkloadError
from diploee.integrations.zeus import (
    chosen_workloads,
    read_groups,
    read_traces,
)
from diploee.integrations.zeus.traces import read_power_trace, read_train_trace

COLUMNS = ("batch_sizes", "power_limits_w", "time_per_epoch_s", "average_power_w")


def test_joined_files_give_time_power_and_paths_by_batch_size_and_limit(tmp_path):
    found, expected = traces(tmp_path).workload(SPEC), hand_workload()
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for epochs, wanted in zip(found.target_epochs, expected.target_epochs, strict=True):
        assert np.array_equal(epochs, wanted)
    assert (found.gpu, found.max_power_w) == ("toy", 200.0)


def test_rows_without_a_partner_are_left_out(tmp_path):
    train = (*HAND_TRAIN, "toy,net,64,sgd,0.1,1,0.5,3", "toy,net,8,adam,0.1,1,0.5,3")
    power = (
        *HAND_POWER,
        "toy,net,4,sgd,100,9,9",
        "toy,net,4,sgd,200,9,9",
        "b,net,8,sgd,300,9,9",
    )
    found = traces(tmp_path, train, power)
    assert (len(found.train), len(found.power)) == (5, 6)
    assert found.workload(SPEC).batch_sizes.tolist() == [8, 16, 32]
    assert found.max_power_w == 300.0  # the GPU's, whatever was joined


def test_paths_that_never_converge_and_missing_pairs_stay(tmp_path):
    train = (*HAND_TRAIN, "toy,net,8,sgd,0.1,1,0.4,2", "toy,net,64,sgd,0.1,1,0.4,2")
    power = (*HAND_POWER[1:], "toy,net,64,sgd,100,9,9")
    found = traces(tmp_path, train, power).workload(SPEC)
    assert found.batch_sizes.tolist() == [8, 16, 32]
    assert sum(paths.size for paths in found.target_epochs) == 5
    assert np.isnan(found.time_per_epoch_s[0, 0])
    assert np.isinf(found.target_epochs[2]).tolist() == [False, True]


@pytest.mark.parametrize("missed", ["inf", "Infinity", "", "nan"])
def test_target_that_was_missed_is_a_path_that_never_reaches_it(missed, tmp_path):
    found = traces(
        tmp_path, (f"toy,net,8,sgd,0.1,9,0.5,{missed}", *HAND_TRAIN)
    ).workload(SPEC)
    assert np.isinf(found.target_epochs[0]).sum() == 1


GOOD = "toy,net,8,sgd,0.1,1,0.5,4"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), ": no rows, expected one or more; give a complete table"),
        ((GOOD, ",net,8,sgd,0.1,1,0.5,4"), ":3: column 'dataset' is '', expected a na"),
        (("toy,net,8,sgd,0.1,1,0.5,0",), ":2: column 'target_epoch' is '0', expected"),
        (
            (GOOD, GOOD.replace("sgd", "SGD")),
            ":3: this run and target are already in l",
        ),
    ],
)
def test_bad_train_row_is_named_with_its_line(tmp_path, rows, words):
    file = write(tmp_path / "train.csv", TRAIN_HEADER, *rows)
    with pytest.raises(LogFormatError) as error:
        read_train_trace(file)
    assert f"{file}{words}" in str(error.value)


def test_pair_measured_twice_is_refused(tmp_path):
    file = write(tmp_path / "p.csv", POWER_HEADER, *HAND_POWER, "TOY,net,8,sgd,200,1,1")
    with pytest.raises(
        LogFormatError, match=r"p\.csv:8: this batch size and power limit are alre"
    ):
        read_power_trace(file)


def test_traces_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(
        WorkloadError, match="no dataset, network, optimizer and batch size in com"
    ):
        traces(tmp_path, power=("other,net,8,sgd,100,9,9",))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dataset": "tyo"}, "unknown dataset 'tyo', expected one that both traces ha"),
        ({"network": "x"}, "unknown network 'x', expected one that both traces have"),
        ({"optimizer": "adam"}, "unknown optimizer 'adam', expected one that both"),
        ({"target_metric": 0.6}, "target metric 0.6 is not in the train trace, expec"),
        ({"default_batch_size": 9}, "batch size 9 is not in the data, expected one of"),
    ],
)
def test_what_is_not_in_the_data_is_refused_with_what_is(tmp_path, change, words):
    with pytest.raises(WorkloadError) as error:
        traces(tmp_path).workload(replace(SPEC, **change))  # type: ignore[arg-type]
    assert words in str(error.value)


def test_default_must_be_measured_at_the_highest_limit(tmp_path):
    power = tuple(row for row in HAND_POWER if "16,sgd,200" not in row)
    with pytest.raises(
        WorkloadError, match=r"default batch size 16 was not measured at the highe"
    ):
        traces(tmp_path, power=power).workload(SPEC)


def test_target_that_no_path_reaches_is_refused(tmp_path):
    with pytest.raises(
        WorkloadError, match=r"no training path reaches the target 0\.5"
    ):
        traces(tmp_path, ("toy,net,16,sgd,0.1,1,0.5,",)).workload(SPEC)


def test_a_workload_that_is_not_known_is_named_with_those_that_are(tmp_path):
    found = traces(tmp_path)
    for names in ((), ["toy"], ["cifar100"]):
        with pytest.raises(WorkloadError, match="unknown dataset '"):
            chosen_workloads(found, names)
    with pytest.raises(WorkloadError, match=r"'synthetic-vison'.*did you mean 'synth"):
        chosen_workloads(read_traces(), ["synthetic-vison"])


@pytest.mark.parametrize("gpu", ["v100", "a40"])
def test_sample_is_joined_without_losing_count(sample, gpu):
    train = sample(ZEUS) / "summary_train.csv"
    found = read_traces(train, train.with_name(f"summary_power_{gpu}.csv"))
    assert found.gpu == gpu
    assert 0 < len(found.train) < len(train.read_text().splitlines()) - 1
    assert len(found.specs()) == 6
    for spec in found.specs().values():
        assert np.isfinite(found.workload(spec).mean_epochs).any()
    never = sum(line.endswith(",nan") for line in train.read_text().splitlines())
    assert int(np.isinf(read_train_trace(train).target_epoch).sum()) == never > 0


def test_default_batch_size_is_clipped_to_the_largest_of_a_small_gpu(tmp_path):
    """A P100 or an RTX 6000 holds less than the default batch of cifar100, 1024."""
    small = traces(
        tmp_path,
        tuple(
            f"cifar100,shufflenetv2,{b},adadelta,0.1,1,0.6,9" for b in (256, 512, 1024)
        ),
        tuple(f"cifar100,shufflenetv2,{b},adadelta,250,30,99" for b in (256, 512)),
    )
    (workload,) = chosen_workloads(small)
    assert workload.spec.default_batch_size == 512


def test_groups_are_read_with_their_starts_ends_and_ratios(tmp_path):
    trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *GROUPS))
    assert trace.group.tolist() == ["g2", "g1", "g2", "g3"]
    assert trace.dataset.tolist() == ["toy", "toy", "toy", "other"]
    assert trace.start_time.tolist() == [100.0, 1427642.0, 0.0, 5.0]
    assert trace.end_time.tolist() == [150.0, 1446915.0, 120.0, 9.0]
    assert trace.runtime_ratio.tolist() == [2.0, 1.5, 1.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("g,5,4,toy,1", "'end_time' is 4, expected 'start_time' or later, 5 s"),
        ("g,0,1,toy,0", "column 'runtime_ratio' is '0', expected a number above"),
        ("g,0,1,other,1", "group 'g' trains 'other', but 'toy' in line"),
    ],
)
def test_bad_group_row_is_named_with_its_line(tmp_path, rows, words):
    file = write(tmp_path / "groups.csv", GROUP_HEADER, "g,0,1,toy,1", rows)
    with pytest.raises(LogFormatError) as error:
        read_groups(file)
    assert f"{file}:3: {words}" in str(error.value)
