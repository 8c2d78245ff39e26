"""Programs of scikit-learn, SciPy, xarray and pandas, unmodified, on arrays of `drjit.array_api`.

    python -m conformance.consumers [--only TEXT] [--write]

Each runs twice: on NumPy's arrays, and on ours. The table says whether it ran, whether the results agree with NumPy's,
whether they are our arrays, how many kernels were launched, and how long the second of two calls took. ``--write`` also
writes the table to ``docs/consumers.md``. The exit status is 1 if anything raises, or differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported

import numpy as np

__all__ = ["Outcome", "main", "results", "run"]

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "consumers.md"
#: Results may differ by so much, relative to the largest.
TOLERANCE = 1e-6

#: From a namespace and a function that makes its arrays of NumPy's, to results.
Program = Callable[[Any, Callable[[Any], Any]], Any]
#: Programs that cannot run on any namespace but NumPy's, and why.
KNOWN: dict[str, str] = {}


class Outcome(NamedTuple):
    """What came of a program."""

    name: str
    error: str  # what it raised
    difference: float  # from NumPy's results, relative to the largest
    ours: bool  # whether results are our arrays, and none became one of NumPy on the way
    kernels: int
    seconds: float


def data(rows: int = 300, columns: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, a target, and classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) + rng.normal(size=columns)
    y = x @ rng.normal(size=columns) + 0.1 * rng.normal(size=rows)
    return x, y, (y > np.median(y)).astype(np.int64)


def of(function: Callable[..., Any], *values: Any, **options: Any) -> Program:
    """A program that calls a function with arrays of values."""
    return lambda xp, make: function(*[make(value) for value in values], **options)


def _tested(function: Callable[..., Any], *values: Any) -> Program:
    """A program that returns the statistic and the p-value of a test."""
    def program(xp: Any, make: Any) -> Any:
        found = function(*[make(value) for value in values])
        return found.statistic, found.pvalue

    return program


def _sklearn() -> Iterator[tuple[str, Program]]:
    from sklearn import (
        decomposition,
        discriminant_analysis,
        kernel_approximation,
        linear_model,
        metrics,
        mixture,
        model_selection,
        naive_bayes,
        pipeline,
        preprocessing,
    )

    x, y, classes = data()

    def fitted(estimator: Callable[[], Any], *attributes: str, target: Any = None, method: str = "") -> Program:
        def program(xp: Any, make: Any) -> Any:
            found = estimator().fit(make(x), *([] if target is None else [make(target)]))
            results = [getattr(found, name) for name in attributes]
            return [*results, getattr(found, method)(make(x))] if method else results

        return program

    yield "StandardScaler", fitted(preprocessing.StandardScaler, "mean_", "var_", method="transform")
    yield "MinMaxScaler", fitted(preprocessing.MinMaxScaler, "min_", "scale_", method="transform")
    yield "MaxAbsScaler", fitted(preprocessing.MaxAbsScaler, "scale_", method="transform")
    yield "Normalizer", fitted(preprocessing.Normalizer, method="transform")
    yield "Binarizer", fitted(lambda: preprocessing.Binarizer(threshold=0.5), method="transform")
    yield "KernelCenterer", lambda xp, make: preprocessing.KernelCenterer().fit_transform(make(x[:6]))
    yield "PolynomialFeatures", fitted(lambda: preprocessing.PolynomialFeatures(2), method="transform")
    yield "LabelEncoder", lambda xp, make: preprocessing.LabelEncoder().fit_transform(make(classes))
    yield "LabelBinarizer", lambda xp, make: preprocessing.LabelBinarizer().fit_transform(make(classes))
    yield "PCA(full)", fitted(lambda: decomposition.PCA(3, svd_solver="full"), "explained_variance_", "mean_",
                              "singular_values_")
    yield "PCA(covariance_eigh)", fitted(lambda: decomposition.PCA(3, svd_solver="covariance_eigh"),
                                         "explained_variance_", "noise_variance_")
    yield "PCA(randomized)", fitted(lambda: decomposition.PCA(
        3, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0), "explained_variance_")
    yield "PCA.inverse_transform", lambda xp, make: decomposition.PCA(
        4, svd_solver="full").fit(make(x)).inverse_transform(make(x[:, :4]) * 0)
    yield "Ridge(svd)", fitted(lambda: linear_model.Ridge(solver="svd"), "coef_", "intercept_", target=y,
                               method="predict")
    yield "RidgeClassifier(svd)", fitted(lambda: linear_model.RidgeClassifier(solver="svd"), "coef_", target=classes,
                                         method="predict")
    yield "RidgeCV", fitted(lambda: linear_model.RidgeCV(alphas=(0.1, 1.0)), "coef_", target=y)
    yield "LogisticRegression", fitted(linear_model.LogisticRegression, "coef_", target=classes,
                                       method="predict_proba")
    yield "LinearDiscriminantAnalysis(svd)", fitted(
        discriminant_analysis.LinearDiscriminantAnalysis, "coef_", target=classes, method="predict")
    yield "GaussianNB", fitted(naive_bayes.GaussianNB, "theta_", "var_", target=classes, method="predict_proba")
    yield "GaussianMixture", fitted(lambda: mixture.GaussianMixture(2, random_state=0, init_params="random_from_data",
                                                                    max_iter=20), "weights_", "means_")
    yield "Nystroem", fitted(lambda: kernel_approximation.Nystroem(n_components=4, random_state=0), method="transform")
    yield "make_pipeline(scaler, Ridge)", fitted(lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.Ridge(solver="svd")), target=y, method="predict")
    yield "cross_val_predict(Ridge)", lambda xp, make: model_selection.cross_val_predict(
        linear_model.Ridge(solver="svd"), make(x), make(y), cv=3)
    yield "train_test_split", lambda xp, make: model_selection.train_test_split(make(x), random_state=0)
    binary = [("accuracy_score", {}), ("balanced_accuracy_score", {}), ("f1_score", {}), ("precision_score", {}),
              ("recall_score", {}), ("jaccard_score", {}), ("hamming_loss", {}), ("zero_one_loss", {}),
              ("confusion_matrix", {}), ("multilabel_confusion_matrix", {}), ("cohen_kappa_score", {}),
              ("fbeta_score", {"beta": 2.0}), ("matthews_corrcoef", {})]
    for name, options in binary:
        yield name, of(getattr(metrics, name), classes, classes[::-1].copy(), **options)
    for name in ("mean_squared_error", "mean_absolute_error", "r2_score", "explained_variance_score", "max_error",
                 "mean_absolute_percentage_error", "root_mean_squared_error", "median_absolute_error"):
        yield name, of(getattr(metrics, name), y, y + x[:, 0])
    for name in ("mean_poisson_deviance", "mean_gamma_deviance", "mean_squared_log_error"):
        yield name, of(getattr(metrics, name), np.abs(y) + 1, np.abs(y + x[:, 0]) + 1)
    for name in ("roc_auc_score", "log_loss", "brier_score_loss", "average_precision_score"):
        yield name, of(getattr(metrics, name), classes, 1 / (1 + np.exp(-y)))
    yield "roc_curve", lambda xp, make: metrics.roc_curve(make(classes), make(y))[:2]
    for name in ("euclidean_distances", "cosine_similarity", "cosine_distances", "rbf_kernel", "linear_kernel",
                 "polynomial_kernel", "sigmoid_kernel", "laplacian_kernel", "manhattan_distances", "chi2_kernel",
                 "additive_chi2_kernel", "paired_euclidean_distances", "paired_cosine_distances"):
        values = np.abs(x[:20]) if "chi2" in name else x[:20]
        yield f"pairwise.{name}", of(getattr(metrics.pairwise, name), values, values[::-1].copy())


def _scipy() -> Iterator[tuple[str, Program]]:
    from scipy import cluster, constants, differentiate, fft, integrate, interpolate, linalg, signal, special, stats
    from scipy.optimize import elementwise
    from scipy.spatial.transform import Rotation

    x = data()[0]
    a, b = x[:, 0].copy(), x[:, 1].copy()
    unit = np.linspace(0.05, 0.95, 40)

    for name in ("expit", "logit", "erf", "erfc", "gammaln", "digamma", "ndtr", "ndtri", "log_ndtr", "entr", "i0",
                 "i0e", "i1", "i1e", "sinc", "exp2", "exp10"):
        if hasattr(special, name):
            yield f"special.{name}", of(getattr(special, name), unit)
    for name in ("xlogy", "rel_entr", "chdtr", "gammainc", "betaln"):
        yield f"special.{name}", of(getattr(special, name), unit, unit[::-1].copy())
    yield "special.logsumexp", of(special.logsumexp, x, axis=1)
    yield "special.softmax", of(special.softmax, x, axis=1)
    yield "special.log_softmax", of(special.log_softmax, x, axis=1)
    for name in ("zscore", "skew", "kurtosis", "sem", "moment", "variation", "circmean", "circvar", "circstd",
                 "kstat", "kstatvar", "describe", "gzscore", "directional_stats", "entropy", "trim_mean", "iqr"):
        values = np.abs(x) + 0.5 if name in ("gzscore", "entropy") else x
        options = {"proportiontocut": 0.1} if name == "trim_mean" else {}
        yield f"stats.{name}", of(getattr(stats, name), values, **options)
    for name in ("gmean", "hmean", "pmean"):
        yield f"stats.{name}", of(getattr(stats, name), np.abs(x) + 0.5, **({"p": 3} if name == "pmean" else {}))
    for name in ("pearsonr", "ttest_ind", "ttest_rel", "bartlett", "spearmanr"):
        yield f"stats.{name}", _tested(getattr(stats, name), a, b)
    for name in ("skewtest", "kurtosistest", "normaltest", "jarque_bera"):
        yield f"stats.{name}", _tested(getattr(stats, name), a)
    yield "stats.ttest_1samp", lambda xp, make: stats.ttest_1samp(make(a), 0.1).statistic
    yield "stats.power_divergence", lambda xp, make: stats.power_divergence(make(np.arange(5.0, 15.0))).statistic
    yield "stats.chisquare", lambda xp, make: stats.chisquare(make(np.arange(5.0, 15.0))).statistic
    yield "stats.rankdata", of(stats.rankdata, a)
    yield "stats.quantile", lambda xp, make: stats.quantile(make(a), make(np.array([0.1, 0.5])))
    for name in ("fft", "ifft", "rfft", "fftn", "hfft", "dct"):
        yield f"fft.{name}", of(getattr(fft, name), a)
    yield "signal.hilbert", of(signal.hilbert, a)
    yield "signal.resample", of(signal.resample, a, num=100)
    yield "signal.fftconvolve", of(signal.fftconvolve, a, b[:20])
    yield "signal.oaconvolve", of(signal.oaconvolve, a, b[:20])
    yield "signal.savgol_filter", of(signal.savgol_filter, a, window_length=7, polyorder=2)
    yield "signal.lfilter", of(signal.lfilter, np.array([1.0, 0.5]), np.array([1.0, -0.2]), a)
    yield "signal.windows.hann", lambda xp, make: signal.windows.hann(20, xp=xp)
    yield "cluster.vq.whiten", of(cluster.vq.whiten, x)
    yield "cluster.vq.vq", lambda xp, make: cluster.vq.vq(make(x), make(x[:5]))
    yield "constants.convert_temperature", lambda xp, make: constants.convert_temperature(make(a), "Celsius", "Kelvin")
    yield "Rotation.apply", lambda xp, make: Rotation.from_rotvec(make(unit[:3])).apply(make(x[:, :3].copy()))
    yield "Rotation.as_euler", lambda xp, make: Rotation.from_quat(make(unit[:4])).as_euler("xyz")
    yield "Rotation.mean", lambda xp, make: Rotation.from_rotvec(make(x[:5, :3].copy() * 0.1)).mean().as_quat()
    yield "integrate.trapezoid", of(integrate.trapezoid, a)
    yield "integrate.simpson", of(integrate.simpson, a)
    yield "integrate.cumulative_trapezoid", of(integrate.cumulative_trapezoid, a)
    yield "integrate.tanhsinh", lambda xp, make: integrate.tanhsinh(
        lambda t: xp.exp(-t * t), make(np.array(0.0)), make(np.array(1.0))).integral
    yield "integrate.cubature", lambda xp, make: integrate.cubature(
        lambda t: xp.sum(t, axis=-1), make(np.array([0.0, 0.0])), make(np.array([1.0, 1.0]))).estimate
    yield "optimize.elementwise.find_root", lambda xp, make: elementwise.find_root(
        lambda t: t * t - 2, (make(np.array([0.0, 1.0])), make(np.array([2.0, 3.0])))).x
    yield "optimize.elementwise.find_minimum", lambda xp, make: elementwise.find_minimum(
        lambda t: (t - 1) ** 2, tuple(make(np.array([v])) for v in (-2.0, 0.5, 3.0))).x
    yield "differentiate.derivative", lambda xp, make: differentiate.derivative(xp.sin, make(unit)).df
    yield "differentiate.jacobian", lambda xp, make: differentiate.jacobian(lambda t: xp.sin(t) * 2, make(unit[:3])).df
    yield "interpolate.make_interp_spline", lambda xp, make: interpolate.make_interp_spline(
        make(unit), make(np.sin(unit)))(make(unit[:5] + 0.01))
    yield "linalg.lu_factor", lambda xp, make: linalg.lu_factor(make(x[:6]))[0]


def _xarray() -> Iterator[tuple[str, Program]]:
    import xarray as xr

    values = data(6, 8)[0]
    holes = values.copy()
    holes[1, 2] = holes[3, 4] = np.nan
    place, groups = np.arange(8.0), xr.DataArray([0, 0, 1, 1, 2, 2], dims="t", name="g")

    def on(operation: Callable[[Any], Any], given: np.ndarray = values) -> Program:
        def program(xp: Any, make: Any) -> Any:
            array = xr.DataArray(make(given), dims=("t", "x"), coords={"x": place, "t": np.arange(6.0)}, name="v")
            found = operation(array)
            return found.data if hasattr(found, "data") else found

        return program

    simple: dict[str, Callable[[Any], Any]] = {
        "arithmetic": lambda a: a + a * 2 - 1, "comparison": lambda a: a > 0, "numpy.sin": np.sin,
        "sum": lambda a: a.sum("x"), "mean": lambda a: a.mean("t"), "std": lambda a: a.std("x"),
        "max": lambda a: a.max("x"), "argmax": lambda a: a.argmax("x"), "idxmax": lambda a: a.idxmax("x"),
        "median": lambda a: a.median("x"), "cumsum": lambda a: a.cumsum("x"), "any": lambda a: (a > 0).any("x"),
        "where": lambda a: a.where(a > 0), "where(other)": lambda a: a.where(a > 0, -1.0),
        "xr.where": lambda a: xr.where(a > 0, a, 0.0), "shift": lambda a: a.shift(x=2), "roll": lambda a: a.roll(x=3),
        "diff": lambda a: a.diff("x"), "clip": lambda a: a.clip(-0.5, 0.5), "pad": lambda a: a.pad(x=2),
        "transpose": lambda a: a.transpose("x", "t"), "stack, unstack": lambda a: a.stack(z=("t", "x")).unstack("z"),
        "isel": lambda a: a.isel(x=[1, 3], t=slice(1, None, 2)), "sel": lambda a: a.sel(x=3.2, method="nearest"),
        "reindex": lambda a: a.reindex(x=[1.0, 2.0, 20.0]), "concat": lambda a: xr.concat([a, a], "t"),
        "broadcast": lambda a: xr.broadcast(a.isel(t=0), a)[0], "dot": lambda a: xr.dot(a, a, dim="x"),
        "quantile": lambda a: a.quantile([0.25, 0.5], dim="x"), "rolling.mean": lambda a: a.rolling(x=3).mean(),
        "rolling.max": lambda a: a.rolling(x=3).max(), "rolling.construct": lambda a: a.rolling(x=3).construct("w"),
        "coarsen": lambda a: a.coarsen(x=2).mean(), "groupby": lambda a: a.groupby(groups).mean(),
        "groupby anomaly": lambda a: a.groupby(groups) - a.groupby(groups).mean(),
        "weighted": lambda a: a.weighted(abs(a.isel(t=0))).mean("x"), "interp": lambda a: a.interp(x=[1.5, 2.25]),
        "integrate": lambda a: a.integrate("x"), "differentiate": lambda a: a.differentiate("x"),
        "polyfit": lambda a: a.polyfit("x", 2).polyfit_coefficients,
        "cov": lambda a: xr.cov(a, a * 2, "x"), "round": lambda a: a.round(1), "sortby": lambda a: a.sortby(-a.x),
        "plot": lambda a: np.asarray(a.isel(t=0).plot()[0].get_ydata()),
        "plot.pcolormesh": lambda a: np.asarray(a.plot().get_array())}
    for name, operation in simple.items():
        yield name, on(operation)
    missing: dict[str, Callable[[Any], Any]] = {
        "fillna": lambda a: a.fillna(0.0), "isnull": lambda a: a.isnull(), "mean(skipna)": lambda a: a.mean("x"),
        "count": lambda a: a.count("x"), "dropna": lambda a: a.dropna("x"), "ffill": lambda a: a.ffill("x"),
        "interpolate_na": lambda a: a.interpolate_na("x"), "combine_first": lambda a: a.combine_first(a + 1)}
    for name, operation in missing.items():
        yield name, on(operation, holes)


def _pandas() -> Iterator[tuple[str, Program]]:
    import pandas as pd

    a, b = data()[0][:, :2].T

    def on(operation: Callable[[Any, Any], Any]) -> Program:
        return lambda xp, make: np.asarray(operation(pd.Series(a), make(b)))

    yield "series + x", on(lambda series, x: series + x)
    yield "x * series", on(lambda series, x: x * series)
    yield "series > x", on(lambda series, x: series > x)
    yield "series.where(x > 0)", on(lambda series, x: series.where(x > 0, 0.0))
    yield "Series(x).rolling.mean", on(lambda series, x: pd.Series(x).rolling(3).mean())
    yield "DataFrame(x=x)", on(lambda series, x: pd.DataFrame({"s": series, "x": x}))
    yield "series.dot(x)", on(lambda series, x: series.dot(x))


def run(name: str, program: Program) -> Outcome:
    """Run a program on either kind of arrays, and compare."""
    import drjit.array_api as xp
    import drjit_core as core

    def made(array: Any) -> Any:
        return xp.asarray(array)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = _leaves(program(np, np.asarray))
            program(xp, made)
            before, start = core.kernel_statistics()["launches"], time.perf_counter()
            with _counted(xp.Array) as conversions:
                found = _leaves(program(xp, made))
            values = [np.asarray(value) for value in found]
            seconds, kernels = time.perf_counter() - start, core.kernel_statistics()["launches"] - before
        except Exception as error:
            return Outcome(name, f"{type(error).__name__}: {' '.join(str(error).split())}", 0, False, 0, 0)
    difference = 0.0 if len(values) == len(expected) else np.inf
    for value, wanted in zip(values, map(np.asarray, expected), strict=False):
        if value.shape != wanted.shape and value.size != wanted.size:
            difference = np.inf
        elif wanted.size and wanted.dtype.kind in "fciub":
            scale = np.nanmax(np.abs(wanted.astype(complex))) or 1.0
            away = np.abs(value.reshape(wanted.shape).astype(complex) - wanted)
            difference = max(difference, float(np.nanmax(away) / scale) if np.isfinite(scale) else 0.0)
    arrays = [value for value in found if not isinstance(value, (bool, int, float, np.generic))]
    ours = not conversions and all(isinstance(value, xp.Array) for value in arrays)
    return Outcome(name, "", difference, ours, kernels, seconds)


@contextlib.contextmanager
def _counted(cls: Any) -> Iterator[list[Any]]:
    """The conversions to NumPy's arrays that other libraries ask for."""
    found: list[Any] = []
    original = cls.__array__

    def counting(self: Any, *args: Any, **options: Any) -> Any:
        found.append(args)
        return original(self, *args, **options)

    cls.__array__ = counting
    try:
        yield found
    finally:
        cls.__array__ = original


def _leaves(value: Any) -> list[Any]:
    """The arrays and numbers of a result."""
    if isinstance(value, (tuple, list)):
        return [leaf for entry in value for leaf in _leaves(entry)]
    return [value] if hasattr(value, "dtype") or isinstance(value, (bool, int, float)) else []


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """The rows of a table."""
    yield "| | agrees with NumPy | our arrays | kernels | ms |"
    yield "|---|---|---|---|---|"
    for outcome in outcomes:
        if outcome.error:
            reason = KNOWN.get(outcome.name, f"raises {outcome.error[:150].replace('|', '/')}")
            yield f"| `{outcome.name}` | no: {reason} | | | |"
        else:
            agrees = "yes" if outcome.difference <= TOLERANCE else f"**no** ({outcome.difference:.1e})"
            yield (f"| `{outcome.name}` | {agrees} | {'yes' if outcome.ours else 'no'} | {outcome.kernels} | "
                   f"{outcome.seconds * 1e3:.1f} |")


def main(arguments: list[str] | None = None) -> int:
    """Run all programs, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m conformance.consumers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="programs whose names contain a text")
    parser.add_argument("--write", action="store_true", help="write docs/consumers.md")
    options = parser.parse_args(arguments)
    text, status = [], 0
    for library, outcomes in results(options.only).items():
        good = [outcome for outcome in outcomes if not outcome.error and outcome.difference <= TOLERANCE]
        status |= any(outcome.name not in KNOWN for outcome in outcomes if outcome not in good)
        text += [f"## {library}", "", f"{len(outcomes)} programs: {len(good)} run and agree with NumPy, "
                 f"{sum(outcome.ours for outcome in good)} of them return our arrays.", "", *table(outcomes), ""]
    print("\n".join(text))
    if options.write:
        PAGE.write_text("\n".join([_HEAD, *text]).rstrip() + "\n", encoding="utf-8")
    return status


_HEAD = """\
# Libraries on our arrays

Made by `python -m conformance.consumers --write`. Programs of other libraries, unmodified, on arrays of
`drjit.array_api`: whether results agree with NumPy's to 6 digits, whether they are our arrays and were computed there
without becoming NumPy's on the way (plots need numbers of the host, SciPy's interpolation and bottleneck know nothing
else, `polyfit` and `dropna` of xarray convert what they ask for, and columns of pandas are NumPy's), how many kernels a
call launches, and how long it takes on 300 × 6 numbers, where tracing is all that counts.
"""


def results(only: str = "") -> dict[str, list[Outcome]]:
    """What came of all programs, by library."""
    import matplotlib
    import sklearn

    matplotlib.use("Agg")
    found: dict[str, list[Outcome]] = {}
    with sklearn.config_context(array_api_dispatch=True):
        for library, programs in (("scikit-learn", _sklearn()), ("SciPy", _scipy()), ("xarray", _xarray()),
                                  ("pandas", _pandas())):
            try:
                found[library] = [run(name, program) for name, program in programs if only in name]
            except ModuleNotFoundError as error:  # those that are not installed
                print(f"{library}: {error}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
