"""The sections of the reference, which is what all of its pages and counts are ordered by."""

from __future__ import annotations

import json
import pathlib
from typing import NamedTuple

__all__ = ["ADDED", "NAMES", "SECTIONS", "Name", "divide", "names"]

#: The first name of each section of Dr.Jit's reference.
SECTIONS = {
    "drjit.zeros": "Array creation", "drjit.syntax": "Control flow", "drjit.gather": "Scatter and gather",
    "drjit.ReduceOp": "Reductions", "drjit.prefix_reduce": "Prefix and block reductions",
    "drjit.concat": "Rearranging arrays", "drjit.resample": "Tensor operations", "drjit.rng": "Random numbers",
    "drjit.select": "Masks, comparisons, shapes", "drjit.linear_to_srgb": "Colour",
    "drjit.reorder_threads": "The compiler", "drjit.freeze": "Frozen functions",
    "drjit.is_array_v": "Type traits", "drjit.reinterpret_array": "Bits", "drjit.fma": "Standard mathematics",
    "drjit.cross": "Vectors, matrices, quaternions", "drjit.sin": "Transcendental functions",
    "drjit.safe_sqrt": "Safe functions", "drjit.ADMode": "Derivatives", "drjit.wrap": "Other frameworks",
    "drjit.e": "Constants", "drjit.ArrayBase": "ArrayBase", "drjit.graphviz": "Debugging",
    "drjit.set_backend": "The runtime", "drjit.profile_enable": "Profiling", "drjit.WrapMode": "Textures",
    "drjit.alloc_local": "Local memory", "drjit.dda.dda": "Ray marching", "drjit.opt.Optimizer": "Optimizers",
    "drjit.nn.CoopVec": "Neural networks", "drjit.cuda.green_context": "CUDA",
}
#: Public names that Dr.Jit's reference does not list there, by the section where they are documented.
ADDED = {
    "Control flow": ["drjit.instance_array", "drjit.func"],
    "Reductions": ["drjit.median", "drjit.sum_nested", "drjit.prod_nested", "drjit.min_nested", "drjit.max_nested",
                   "drjit.all_nested", "drjit.any_nested", "drjit.none_nested"],
    "Masks, comparisons, shapes": ["drjit.opaque_width"],
    "Other frameworks": ["drjit.wrap_ad"],
    "Frozen functions": ["drjit.load_frozen"],
    "Constants": ["drjit.inv_sqrt_four_pi"],
    "Ray marching": ["drjit.dda.integrate_ref"],
    "Random numbers": ["drjit.random", "drjit.random.Philox4x32Generator", "drjit.llvm.PCG32",
                       "drjit.llvm.Philox4x32"],
    "Textures": ["drjit.llvm.Texture2f", "drjit.textures", "drjit.textures.Mipmap", "drjit.textures.CubeMap",
                 "drjit.textures.grid_sample", "drjit.textures.from_image",
                 "drjit.textures.laplacian_pyramid", "drjit.textures.from_laplacian_pyramid"],
    "Type traits": [
        "drjit.leaf_t", "drjit.scalar_t", "drjit.mask_t", "drjit.array_t", "drjit.matrix_t", "drjit.tensor_t",
        "drjit.expr_t", "drjit.diff_array_t", "drjit.detached_t", "drjit.replace_type_t", "drjit.replace_shape_t",
        "drjit.reinterpret_array_t", "drjit.int_array_t", "drjit.uint_array_t",
        "drjit.float_array_t", "drjit.int8_array_t", "drjit.uint8_array_t", "drjit.int32_array_t",
        "drjit.uint32_array_t", "drjit.int64_array_t", "drjit.uint64_array_t", "drjit.bfloat16_array_t",
        "drjit.float16_array_t", "drjit.float32_array_t", "drjit.float64_array_t"],
    "Rearranging arrays": ["drjit.row_stack"],
    "Tensor operations": ["drjit.upsample", "drjit.detail.part_of", "drjit.detail.permuted", "drjit.detail.reshaped",
                          "drjit.detail.of_memory", "drjit.detail.bytes_of", "drjit.detail.read_by",
                          "drjit.detail.contents", "drjit.detail.copied", "drjit.detail.filled_by",
                          "drjit.detail.write_by", "drjit.detail.call_host", "drjit.detail.records"],
    "Derivatives": ["drjit.value_and_grad", "drjit.jacobian", "drjit.hvp", "drjit.gradcheck",
                    "drjit.explain_grad", "drjit.checkpoint", "drjit.relative_grad", "drjit.detail.differentiated"],
    "Standard mathematics": ["drjit.square", "drjit.sqr", "drjit.clamp", "drjit.fmin", "drjit.fmax"],
    "Vectors, matrices, quaternions": ["drjit.identity", "drjit.inverse"],
    "Transcendental functions": ["drjit.cot", "drjit.erfc", "drjit.detail.of_pairs"],
    "The runtime": ["drjit.flush_thread", "drjit.llvm.Event", "drjit.KernelType",
                    "drjit.KernelRecordingMode", "drjit.detail.eval_held", "drjit.detail.is_pending",
                    "drjit.detail.computes_now", "drjit.detail.in_plain_code", "drjit.detail.is_variable",
                    "drjit.detail.is_constant", "drjit.detail.is_recorded", "drjit.detail.tracking",
                    "drjit.detail.named",
                    "drjit.detail.missing_backend", "drjit.detail"],
    "Profiling": ["drjit.detail.ProfileEvent"],
    "Array packages": ["drjit.scalar", "drjit.llvm", "drjit.llvm.ad", "drjit.cuda", "drjit.cuda.ad", "drjit.auto",
                       "drjit.auto.ad"],
    "Optimizers": ["drjit.opt.Schedule", "drjit.opt.clip_grad_value", "drjit.opt.clip_grad_norm",
                   "drjit.opt.Accumulator", "drjit.opt.Average"],
    "Neural networks": [*(f"drjit.nn.{name}" for name in (
                            "Sigmoid", "SiLU", "GELU", "Softplus", "ELU", "Sin", "Identity", "LayerNorm", "RMSNorm",
                            "Dropout", "Embedding", "Skip", "Concat", "SphericalHarmonics", "OneBlob")),
                        "drjit.nn.Parameters", "drjit.nn.save_checkpoint", "drjit.nn.load_checkpoint",
                        "drjit.nn.checkpoints", "drjit.nn.save_safetensors", "drjit.nn.load_safetensors",
                        "drjit.nn.from_torch", "drjit.nn.to_torch"],
    "Type variables": ["drjit.T", "drjit.Ts", "drjit.ArrayT", "drjit.AnyArray", "drjit.SelfT", "drjit.SelfCpT",
                       "drjit.ValT", "drjit.ValCpT", "drjit.RedT", "drjit.PlainT", "drjit.MaskT"],
}
#: The names of Dr.Jit's reference, made by ``python -m conformance.reference.coverage --names``.
NAMES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "reference_names.json"


class Name(NamedTuple):
    """A name of Dr.Jit's reference."""

    name: str  # with dots: drjit.random.Generator
    members: list[str]  # of a class or an enumeration


def divide(reference: dict[str, list[str]]) -> dict[str, list[Name]]:
    """The names by section; the argument maps the names, in the reference's order, to their members."""
    section, found = "Other", dict[str, list[Name]]()
    for name, members in reference.items():
        section = SECTIONS.get(name, section)
        found.setdefault(section, []).append(Name(name, members))
    return found


def names() -> dict[str, list[Name]]:
    """The names of Dr.Jit's reference by section, in its order."""
    return divide(json.loads(NAMES.read_text(encoding="utf-8")))
