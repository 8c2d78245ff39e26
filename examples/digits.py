"""Handwritten digits with scikit-learn, computed by this compiler: principal components, and a ridge regression.

scikit-learn knows nothing of Dr.Jit. Its estimators take arrays of any namespace that follows the Python array API
standard, and compute with that namespace's functions; ``drjit.array_api`` is one. What they compute is traced, fused
and run on all cores, and results are arrays of the same kind.

Run ``python examples/digits.py`` (needs scikit-learn); the picture is ``examples/out/digits.png``.
"""

import os
from pathlib import Path

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported, which scikit-learn asks for

import numpy as np
import sklearn
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

import drjit as dr
import drjit.array_api as xp

OUTPUT = Path(__file__).resolve().parent / "out" / "digits.png"


def main(output: Path = OUTPUT) -> float:
    """Fit both models, draw what they found, and return the share of digits that the regression recognises."""
    images, digits = load_digits(return_X_y=True)
    pixels, labels = xp.asarray(images), xp.asarray(digits)
    with sklearn.config_context(array_api_dispatch=True), dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        pca = PCA(n_components=16, svd_solver="covariance_eigh").fit(pixels)
        places = pca.transform(pixels)
        # One column for each digit, 1 where it is the one; half of the images are for learning, the others for testing.
        columns = xp.astype(labels[:, None] == xp.arange(10), xp.float64)
        ridge = Ridge(alpha=1000.0, solver="svd").fit(pixels[::2, :], columns[::2, :])
        found = xp.argmax(ridge.predict(pixels[1::2, :]), axis=1)
        share = float(xp.mean(xp.astype(found == labels[1::2], xp.float64)))
        kernels = len(dr.kernel_history())
    assert all(isinstance(value, xp.Array) for value in (pca.components_, places, ridge.coef_, found))
    variance = float(xp.sum(pca.explained_variance_ratio_))
    print(f"{share:.1%} of the digits are recognised; {variance:.1%} of the variance lies in {pca.n_components} of "
          f"{pixels.shape[1]} dimensions; {kernels} kernels")
    draw(output, np.asarray(places), digits, np.asarray(pca.components_), np.asarray(ridge.coef_))
    return share


def draw(output: Path, places: np.ndarray, digits: np.ndarray, components: np.ndarray, weights: np.ndarray) -> None:
    """The images in the plane of the first components; components, and the weights of each digit, as images."""
    figure = Figure(figsize=(13, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.1))
    axes = left.subplots()
    points = axes.scatter(places[:, 0], places[:, 1], c=digits, s=9, cmap="tab10", vmin=-0.5, vmax=9.5)
    left.colorbar(points, ax=axes, ticks=range(10), label="digit", shrink=0.7)
    axes.set_title("1797 digits along the first two principal components")
    axes.set_aspect("equal")
    upper, lower = right.subfigures(2, 1)
    for part, title, rows in ((upper, "the first ten components", components[:10]),
                              (lower, "what the regression looks for, digit by digit", weights)):
        part.suptitle(title)
        limit = np.abs(rows).max() * 0.8
        for number, (place, row) in enumerate(zip(part.subplots(2, 5).flat, rows, strict=True)):
            place.imshow(row.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
            place.set_title(str(number), fontsize=8)
            place.set_axis_off()
    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=130)


if __name__ == "__main__":
    main()
    print(f"written: {OUTPUT}")
