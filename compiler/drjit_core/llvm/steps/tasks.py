"""Text of kernels that work off tasks, each a tile of one of the matrices of a batch.

Parameters are 64-bit words, of which a table says where they are.  Behind these come, for each dimension of the batch,
the extent and two distances, in bytes.  Names of values are those of the words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

__all__ = ["batches", "divided", "entry", "first_lanes", "lines", "loaded", "numbered", "tile", "up"]


def numbered(*names: str) -> dict[str, int]:
    """A table of words."""
    return {name: position for position, name in enumerate(names)}


def up(value: int, multiple: int) -> int:
    """The next multiple."""
    return -(-value // multiple) * multiple


def lines(*parts: str | Sequence[str]) -> str:
    """One text of lines, and of lists of them."""
    return "\n".join(part if isinstance(part, str) else "\n".join(part) for part in parts)


def entry(name: str, words: Mapping[str, int], last: str = "") -> str:
    """The kernel, which calls ``@task`` for each task of a block; ``last`` is an instruction for the end of a block."""
    return f"""
define void @{name}(ptr %parameters, i64 %unused0, i64 %unused1, i64 %begin, i64 %end, i64 %block, i32 %worker) {{
entry:
  %unit_at = getelementptr i64, ptr %parameters, i64 {words["unit"]}
  %unit = load i64, ptr %unit_at, align 8
  %first = udiv i64 %begin, %unit
  %last = udiv i64 %end, %unit
  br label %look
look:
  %task = phi i64 [ %first, %entry ], [ %next, %work ]
  %more = icmp slt i64 %task, %last
  br i1 %more, label %work, label %done
work:
  call void @task(ptr %parameters, i64 %task, i32 %worker)
  %next = add i64 %task, 1
  br label %look
done:
  {last}
  ret void
}}"""


def loaded(words: Mapping[str, int], pointers: Collection[str]) -> list[str]:
    """Loads of the parameters."""
    found = []
    for name, position in words.items():
        found += [f"%{name}_at = getelementptr i64, ptr %parameters, i64 {position}",
                  f"%{name} = load {'ptr' if name in pointers else 'i64'}, ptr %{name}_at, align 8"]
    return found


def divided(quotient: str, rest: str, value: str, by: str) -> list[str]:
    """A quotient, and what is left."""
    return [f"{quotient} = udiv i64 {value}, {by}", f"{quotient}_whole = mul i64 {quotient}, {by}",
            f"{rest} = sub i64 {value}, {quotient}_whole"]


def tile(name: str, number: str, size: str, extent: str) -> list[str]:
    """Where a tile begins along an axis (``_0``), and how long it is (``_count``)."""
    return [f"%{name}_0 = mul i64 {number}, {size}", f"%{name}_left = sub i64 {extent}, %{name}_0",
            f"%{name}_count = call i64 @llvm.umin.i64(i64 %{name}_left, i64 {size})"]


def batches(words: Mapping[str, int], first: str, second: str) -> str:
    """The distances of the matrices of a task in the batch (``_sum``), for two arrays.

    Goes on from the entry block; ends in front of ``located``, a label that has to follow.
    """
    return f"""br label %batches
batches:
  %d = phi i64 [ %rank, %entry ], [ %d_next, %batch_step ]
  %rest = phi i64 [ %batch, %entry ], [ %rest_next, %batch_step ]
  %{first}_sum = phi i64 [ 0, %entry ], [ %{first}_sum_next, %batch_step ]
  %{second}_sum = phi i64 [ 0, %entry ], [ %{second}_sum_next, %batch_step ]
  %d_more = icmp sgt i64 %d, 0
  br i1 %d_more, label %batch_step, label %located
batch_step:
  %d_next = sub i64 %d, 1
  %d_3 = mul i64 %d_next, 3
  %d_word = add i64 %d_3, {len(words)}
  %extent_at = getelementptr i64, ptr %parameters, i64 %d_word
  %extent = load i64, ptr %extent_at, align 8
  %{first}_step_at = getelementptr i64, ptr %extent_at, i64 1
  %{first}_step = load i64, ptr %{first}_step_at, align 8
  %{second}_step_at = getelementptr i64, ptr %extent_at, i64 2
  %{second}_step = load i64, ptr %{second}_step_at, align 8
  {lines(divided("%rest_next", "%place", "%rest", "%extent"))}
  %{first}_more = mul i64 %place, %{first}_step
  %{first}_sum_next = add i64 %{first}_sum, %{first}_more
  %{second}_more = mul i64 %place, %{second}_step
  %{second}_sum_next = add i64 %{second}_sum, %{second}_more
  br label %batches"""


def first_lanes(lanes: int, name: str, count: str) -> str:
    """A mask of so many first lanes (an ``i64``, which may be more than there are)."""
    packet, places = f"<{lanes} x i64>", ", ".join(f"i64 {lane}" for lane in range(lanes))
    return (f"{name}_i = insertelement {packet} poison, i64 {count}, i64 0\n"
            f"{name}_s = shufflevector {packet} {name}_i, {packet} poison, <{lanes} x i32> zeroinitializer\n"
            f"{name} = icmp sgt {packet} {name}_s, <{places}>")
