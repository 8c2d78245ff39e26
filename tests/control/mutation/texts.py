"""The program of a cell, as text: the same one runs in all modes, and for one element at a time."""

from __future__ import annotations

import re
import textwrap

from .table import ACTIONS, HOLDERS, OTHERS, PLACES, Cell

__all__ = ["text_of"]

_ARGUMENTS = {"returned": ["q"], "kept": ["q"], "new": ["q"], "twice": ["q", "p"], "captured": [], "global": []}


class _Writer:
    def __init__(self, cell: Cell) -> None:
        self.cell, self.place = cell, PLACES[cell.place]
        self.arguments = _ARGUMENTS[cell.reach]
        self.returned = {"kept": [], "new": ["q + 1"]}.get(cell.reach, self.arguments)
        #: What functions are given besides: evaluated calls, and loops that remove elements, have some of the lanes.
        few = {"switch", "dispatch"} & {*cell.chain} or cell.mode == "compressed"
        self.rest = ["c", "n", "s", "i", "k", "v"] if few else []
        self.lines: list[str] = []
        self.helpers: list[str] = []

    def write(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def act(self, depth: int, what: str) -> None:
        """What is done: ``same``, ``other``, ``rebinds`` or ``nothing``."""
        template = {"same": ACTIONS[self.cell.action].text, "other": OTHERS[self.cell.letter],
                    "rebinds": "{e} = {e} + 5", "nothing": "pass"}[what]
        lines = template.format(e=HOLDERS[self.cell.holder]).splitlines()
        if self.cell.by == "a function" and what != "nothing":
            self.helpers += [f"def {what}(q, k, v):", *("    " + line for line in lines)]
            lines = [f"{what}(q, k, v)"]
        if not self.arguments and any(re.match(r"q [^ ]*= ", line) for line in lines):
            self.write(depth, "global q" if self.cell.reach == "global" else "nonlocal q")
        self.write(depth, *lines)
        if what == "same" and self.place.raises:
            self.write(depth, "raise Stop")

    def sides(self) -> list[str]:
        """What is done where the condition holds, or by the first target, and by the other."""
        return ["nothing", "same"] if self.place.other == "moved" else ["same", self.place.other]

    # --- functions ---------------------------------------------------------------------------------------------------

    def function(self, depth: int, name: str, chain: tuple[str, ...], what: str, first: str = "") -> None:
        """A function that does something, or has the next construct."""
        active = "" if first or all(self.place.a) else "active=True"
        self.write(depth, f"def {name}({', '.join(filter(None, [first, *self.arguments, *self.rest, active]))}):")
        if what == "same" and len(chain) > 1:
            self.construct(depth + 1, chain[1:], f"{', '.join(self.returned)} = " if self.returned else "")
        else:
            self.act(depth + 1, what)

    def returning(self, depth: int, values: list[str]) -> None:
        if values:
            self.write(depth, "return " + ", ".join(values))

    def construct(self, depth: int, chain: tuple[str, ...], assign: str) -> None:
        """A construct, after the functions that it calls."""
        kind, number, given = chain[0], len(chain), [*self.arguments, *self.rest]
        arguments = ", ".join(given)
        if kind == "while":
            self.function(depth, f"body{number}", chain, "same", "j")
            state = ["j + 1", *(self.returned or self.arguments), *self.rest]
            self.write(depth + 1, f"return {', '.join(state)}" + ("," if len(state) == 1 else ""))
            self.write(depth, f"state = while_loop((i, {arguments}), lambda {', '.join(['j', *given])}: j < n, "
                              f"body{number}, max_iterations=4)")
            if assign:
                count = len(self.returned)
                self.write(depth, assign + ("state[1]" if count == 1 else f"state[1:{1 + count}]"))
            return
        names = [f"first{number}", f"second{number}"]
        if kind == "dispatch":
            self.write(depth, f"def target({', '.join(['instance', *given])}):", "    if instance.acts:")
            self.act(depth + 2, "same")
            self.returning(depth + 1, self.returned)
            self.write(depth, f"{assign}dispatch(instances, target, {arguments})")
            return
        for name, what in zip(names, self.sides()):
            self.function(depth, name, chain, what)
            self.returning(depth + 1, self.returned)
        if kind == "if":
            comma = "," if len(given) == 1 else ""
            self.write(depth, f"{assign}if_stmt(({arguments}{comma}), c, {', '.join(names)})")
        else:
            active = "" if all(self.place.a) else ", active=a"
            self.write(depth, f"{assign}switch(s, [{', '.join(names)}], {arguments}{active})")

    # --- statements --------------------------------------------------------------------------------------------------

    def statement(self, depth: int, chain: tuple[str, ...]) -> None:
        """Write the construct as statements of Python."""
        if not chain:
            self.act(depth, "same")
            return
        if chain[0] == "while":
            self.write(depth, "j = i", "while dr.hint(j < n, max_iterations=4):")
            self.statement(depth + 1, chain[1:])
            self.write(depth + 1, "j = j + 1")
            return
        first, second = self.sides()
        self.write(depth, "if c:")
        if first == "same":
            self.statement(depth + 1, chain[1:])
        else:
            self.act(depth + 1, first)
        if second != "nothing":
            self.write(depth, "else:")
            self.act(depth + 1, second)

    def program(self) -> str:
        """The text of a function ``program(q, c, n, s, a, i, k, v, instances)``."""
        syntax, captured = self.cell.style == "syntax", self.cell.reach == "captured"
        rest = "c, n, s, a, i, k, v, instances"
        depth = 1
        if captured and syntax:
            self.write(0, f"def program(q, {rest}):")
            self.write(1, "@syntax", "def inner(c, n, i, k, v):")
            depth = 2
        else:
            if syntax:
                self.write(0, "@syntax")
            self.write(0, f"def program({rest if self.cell.reach == 'global' else 'q, ' + rest}):")
        if self.cell.reach == "twice":
            self.write(depth, "p = q")
        if syntax:
            globals_ = self.cell.reach in ("global", "captured")
            start = len(self.lines)
            self.statement(depth, self.place.chain)
            found = [line.strip() for line in self.lines[start:] if re.match(r" *(global|nonlocal) ", line)]
            if globals_ and found:  # stands at the head of the function
                self.lines[start:] = ["    " * depth + found[0],
                                      *(line for line in self.lines[start:] if line.strip() != found[0])]
            if self.returned:
                self.returning(depth, self.returned)
            if captured:
                self.write(1, "inner(c, n, i, k, v)")
        else:
            self.construct(depth, self.place.chain, "found = " if self.returned else "")
            if self.returned:
                self.write(depth, "return found")
        return "\n".join([*dict.fromkeys(self._helpers()), *self.lines]) + "\n"

    def _helpers(self) -> list[str]:
        text, found = "\n".join(self.helpers), list[str]()
        for helper in re.split(r"^(?=def )", text, flags=re.MULTILINE):
            if helper and helper.strip() not in found:
                found.append(textwrap.dedent(helper).strip())
        return found


def text_of(cell: Cell) -> str:
    """The program of a cell."""
    return _Writer(cell).program()
