"""The short examples run at a small size: each writes its picture and returns the number that it promises."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

#: Name, arguments, the number that it returns with its tolerance, and the size of the picture (width, height). What is
#: expected: the area of the Mandelbrot set, pi, the solid angle of a sphere as the camera projects it, a concentration
#: that neither dies out nor fills everything, how many decibels better a photograph becomes, the variance of sums of
#: steps of length 1, the part of a picture that a scene covers, its brightness, small errors, a share of digits, and
#: how many times smaller an error, and noise far away, become, how well a photograph is learned, in decibels, how much
#: of a surface is, how far thrown balls miss, the part of a picture again, and a loss.
CASES = [
    ("mandelbrot", {"size": 120, "iterations": 100}, 1.5066, 0.1, (120, 120)),
    ("monte_carlo_pi", {"points": 1 << 16}, math.pi, 0.03, (1200, 600)),
    ("ray_sphere", {"size": 100}, 0.176, 0.005, (100, 100)),
    ("reaction_diffusion", {"size": 64, "steps": 400}, 0.12, 0.1, (64, 64)),
    ("fit_photo", {"size": 100, "steps": 60}, 1.5, 0.5, (1200, 860)),
    ("random_walk", {"walkers": 20_000, "steps": 100}, 100, 5, (1200, 720)),
    ("sphere_tracer", {"size": 100}, 0.972, 0.01, (100, 100)),
    ("cornell_box", {"size": 60, "samples": 16}, 0.412, 0.01, (60, 60)),
    ("recover_light", {"size": 48, "steps": 60, "samples": 8}, 0.0, 0.6, (432, 144)),
    ("fit_oscillator", {"samples": 20_000}, 0.0, 0.02, (1440, 600)),
    ("digits", {}, 0.92, 0.01, (1690, 806)),
    ("pose", {"count": 50}, 0.0, 0.1, (1950, 442)),
    ("fit_texture", {"size": 64, "steps": 60}, 3.2, 1.0, (1200, 300)),
    ("checkers", {"size": 200}, 2.1, 0.5, (600, 200)),
    ("neural_image", {"size": 100, "steps": 80}, 30.9, 1.5, (1300, 340)),
    ("neural_surface", {"size": 100, "steps": 300}, 0.92, 0.06, (1300, 420)),
    ("torch_throw", {"steps": 60}, 0.4, 0.3, (1300, 500)),
    ("orbit", {"size": 80}, 0.75, 0.01, (320, 80)),
    ("train_frozen", {"size": 60, "steps": 200, "points": 500}, 0.05, 0.04, (120, 60)),
]


def load(name):
    """The module of an example."""
    specification = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "arguments", "expected", "tolerance", "size"), CASES, ids=[case[0] for case in CASES])
def test_picture_and_number(name, arguments, expected, tolerance, size, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    if name in ("fit_photo", "fit_texture", "digits", "neural_image"):
        pytest.importorskip("sklearn")
    if name == "torch_throw":
        pytest.importorskip("torch")
    if name == "pose":
        pytest.importorskip("scipy", minversion="1.17")
    output = tmp_path / "out" / f"{name}.png"
    found = load(name).main(**arguments, output=output)
    assert isinstance(found, float)
    assert found == pytest.approx(expected, abs=tolerance)
    with image.open(output) as picture:
        assert (picture.format, picture.size) == ("PNG", size)
        pixels = np.asarray(picture.convert("L"), dtype=float)
    assert pixels.std() > 10, "the picture has hardly any contrast"


def test_sphere_is_lit_from_the_right_and_shadows_the_floor_on_the_left(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    output = tmp_path / "sphere.png"
    load("ray_sphere").main(size=100, output=output)
    with image.open(output) as picture:
        pixels = np.asarray(picture.convert("RGB"), dtype=int)
    red = pixels[47, :, 0] - pixels[47, :, 2]  # only the sphere is red
    assert red[20] < 10 and red[50] > 60 and red[80] < 10
    assert pixels[47, 65].sum() > pixels[47, 32].sum() + 50
    assert pixels[72, 35].sum() < pixels[72, 80].sum() - 100  # two bright squares, one in the shadow
    assert pixels[5, 50, 2] > pixels[5, 50, 0] + 30  # sky


def test_every_example_is_in_the_table_and_runs_as_a_program():
    names = {path.stem for path in EXAMPLES.glob("*.py")} - {"photo"}  # `make demo` runs that one
    assert names == {case[0] for case in CASES}
    for name in names:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert 'if __name__ == "__main__":' in text
        assert f"examples/out/{name}.png" in text
        assert "drjit._" not in text and "drjit_core" not in text


def test_program_prints_where_its_picture_is(tmp_path):
    pytest.importorskip("matplotlib")
    source = (EXAMPLES / "ray_sphere.py").read_text().replace("size: int = 800", "size: int = 32")
    program = tmp_path / "ray_sphere.py"
    program.write_text(source)
    root = EXAMPLES.parent
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, cwd=tmp_path,
                          env={"PYTHONPATH": f"{root}:{root / 'compiler'}", "PATH": "", "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "out" / "ray_sphere.png") in done.stdout
    assert (tmp_path / "out" / "ray_sphere.png").exists()
