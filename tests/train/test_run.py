"""A run can be stopped, killed, continued and repeated; its files are never half written."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from selfheal_rl.core.catalog import find_world
from selfheal_rl.core.values import ConfigError
from selfheal_rl.trainer.train.recipe import Recipe
from selfheal_rl.trainer.train.rundir import RunDirectory
from selfheal_rl.trainer.train.seed_run import SeedRun
from selfheal_rl.trainer.train.storage import RunError, load_arrays, save_arrays
from selfheal_rl.trainer.train.train import open_or_create, results
from selfheal_rl.trainer.train.train import train as run_training

NewRun = Callable[[str], RunDirectory]


def hashes(run: RunDirectory, seed: int) -> tuple[str, str]:
    """Of the best network and of every array of the checkpoint."""
    trained = run.trained(seed)
    assert trained is not None
    arrays, _ = load_arrays(run.seed_folder(seed) / "state.npz")
    weights = b"".join(arrays[k].tobytes() for k in sorted(arrays) if k.startswith("policy."))
    return trained.network.hash, str(hash(weights))


def test_same_recipe_and_seed_give_the_same_weights(
    new_run: NewRun, finished: RunDirectory
) -> None:
    run = new_run("again")
    SeedRun(run, 3).run()
    assert hashes(run, 3) == hashes(finished, 3)
    assert hashes(finished, 3) != hashes(finished, 4)


def test_a_continued_run_ends_like_one_that_was_never_stopped(
    new_run: NewRun, finished: RunDirectory
) -> None:
    run = new_run("stopped")
    for _ in range(20):
        asked = iter([False, True])
        progress = SeedRun(run, 3).run(stop=lambda asked=asked: next(asked))
        if progress.finished:
            break
    assert progress.finished
    assert hashes(run, 3) == hashes(finished, 3)
    steps = [row["decisions"] for row in run.curve(3)]
    assert steps == [row["decisions"] for row in finished.curve(3)]
    assert [r["utility"] for r in run.curve(3)] == [r["utility"] for r in finished.curve(3)]


def test_rows_of_a_curve_after_the_checkpoint_are_dropped(new_run: NewRun) -> None:
    run = new_run("killed")
    asked = iter([False, False, True])
    SeedRun(run, 3).run(stop=lambda: next(asked))
    curve = run.seed_folder(3) / "curve.jsonl"
    with curve.open("a") as file:
        file.write(json.dumps({"decisions": 10**9}) + '\n{"decisions": 5')
    SeedRun(run, 3)
    assert all(row["decisions"] < 10**9 for row in run.curve(3))


def test_a_full_disk_keeps_the_checkpoint_and_says_so(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run("full")
    asked = iter([False, False, True])
    seed_run = SeedRun(run, 3)
    seed_run.run(stop=lambda: next(asked))
    before = (run.seed_folder(3) / "state.npz").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"No space left.*is kept; free space"):
        seed_run.save()
    assert (run.seed_folder(3) / "state.npz").read_bytes() == before
    leftovers = {p.name for p in run.seed_folder(3).iterdir() if p.name.startswith(".")}
    assert not leftovers


@pytest.mark.parametrize("damage", [b"", b"not a zip", None])
def test_a_damaged_checkpoint_is_refused(new_run: NewRun, damage: bytes | None) -> None:
    run = new_run("damaged")
    SeedRun(run, 3).save()
    path = run.seed_folder(3) / "state.npz"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if damage is None else damage)
    with pytest.raises(RunError, match="not a readable checkpoint"):
        SeedRun(run, 3)


def test_a_checkpoint_of_another_network_is_refused(new_run: NewRun) -> None:
    run = new_run("other")
    SeedRun(run, 3).save()
    path = run.seed_folder(3) / "state.npz"
    arrays, meta = load_arrays(path)
    arrays["policy.action_net.weight"] = np.zeros((3, 3), np.float32)
    save_arrays(path, arrays, meta)
    with pytest.raises(RunError, match=r"action_net.*another recipe"):
        SeedRun(run, 3)


def test_checkpoints_hold_no_pickle(finished: RunDirectory) -> None:
    with np.load(finished.seed_folder(3) / "state.npz", allow_pickle=False) as packed:
        assert all(packed[name].dtype != object for name in packed.files)


def test_the_run_says_how_it_was_made(finished: RunDirectory) -> None:
    about = finished.about
    assert about["command"] == "selfheal train tiny"
    assert set(about["versions"]) >= {"python", "numpy", "torch", "sb3-contrib"}
    assert about["worlds"].keys() == {"toy-exact"}
    assert about["belief_hash"] == finished.tables.hash
    assert [row["seed"] for row in results(finished)] == [3, 4]
    assert any(p.name.startswith("events.") for p in finished.seed_folder(3).iterdir())


def test_a_folder_with_another_run_is_left_alone(finished: RunDirectory, tmp_path: Path) -> None:
    other = finished.recipe.model_copy(update={"decisions": 99})
    with pytest.raises(RunError, match="another recipe or other options"):
        open_or_create(finished.path, other, name="x", command="y")
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(RunError, match="no run of this recipe"):
        open_or_create(tmp_path, other, name="x", command="y")
    with pytest.raises(RunError, match=r"no run\.json"):
        RunDirectory.open(tmp_path)
    same = open_or_create(finished.path, finished.recipe, name="x", command="y")
    assert run_training(same) == results(finished), "a finished run is not trained again"


def test_a_world_that_changed_since_is_refused(tmp_path: Path, tiny: Recipe) -> None:
    world = tmp_path / "mine.toml"
    world.write_bytes(find_world("toy-exact").read_bytes())
    recipe = tiny.model_copy(update={"worlds": (str(world),)})
    run = RunDirectory.create(tmp_path / "run", recipe, name="x", command="y")
    world.write_text(world.read_text() + "\n# edited\n")
    with pytest.raises(RunError, match="changed since this run began"):
        run_training(run)


def test_a_world_that_is_gone_is_named(tmp_path: Path, tiny: Recipe) -> None:
    recipe = tiny.model_copy(update={"worlds": ("toy-exakt",)})
    with pytest.raises(ConfigError, match="did you mean 'toy-exact'"):
        RunDirectory.create(tmp_path / "run", recipe, name="x", command="y")


def _write_recipe(path: Path) -> None:
    path.write_text(
        'worlds = ["toy-exact"]\nseeds = [3, 4]\ndecisions = 400_000\npool = 4\n'
        "[ppo]\nenvs = 64\nsteps = 8\nbatch = 256\nepochs = 2\nhidden = [16, 16]\n"
        "[validation]\nevery = 20_000\ndraws = 1\ntasks = 64\n"
    )


@pytest.mark.slow
def test_ctrl_c_writes_checkpoints_and_says_how_to_go_on(tmp_path: Path) -> None:
    _write_recipe(tmp_path / "tiny.toml")
    out = tmp_path / "run"
    command = [sys.executable, "-m", "selfheal_rl.cli", "train", str(tmp_path / "tiny.toml")]
    process = subprocess.Popen(
        [*command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    curves = [out / f"seed-{seed}" / "curve.jsonl" for seed in (3, 4)]
    while not all(c.is_file() for c in curves) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and children
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert f"selfheal train --resume {out}" in error
    for seed in (3, 4):
        _, meta = load_arrays(out / f"seed-{seed}" / "state.npz")
        assert 0 < meta["decisions"] < 400_000
        assert not meta["finished"]
