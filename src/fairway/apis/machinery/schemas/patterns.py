"""Regular expressions of user-supplied schemas: Go's syntax (RE2), matched in linear time.

Python's `re` backtracks, so that a pattern such as `^(a+)+$` can stop the server; these patterns are compiled to an
automaton whose states are built as they are needed and kept, up to a bound. Back references and look-around, which RE2
does not have either, are refused.
"""

import unicodedata
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.schemas.metering import METER

MOST_INSTRUCTIONS: Final = 10_000
MOST_REPEATS: Final = 1000
_DEEPEST: Final = 100
_MOST_KEPT: Final = 4096
"""Transitions that a pattern remembers; when there are more, it begins anew."""

_BEGIN, _END, _WORD_EDGE, _LINE_BEGIN, _LINE_END = 1, 2, 4, 8, 16
_NOT_WORD_EDGE: Final = 32
_LAST: Final = 0x10FFFF
_Ranges = tuple[tuple[int, int], ...]


class BadPattern(ValueError):
    """A pattern that Go would refuse, or that is too large."""


class _Set(NamedTuple):
    """One character: in one of the ranges or categories, or in none of them."""

    ranges: _Ranges
    categories: frozenset[str] = frozenset()
    negated: bool = False
    folded: bool = False

    def holds(self, char: str) -> bool:
        found = self._holds_one(char)
        if not found and self.folded:
            found = any(self._holds_one(one) for one in (char.lower(), char.upper()) if len(one) == 1)
        return found != self.negated

    def _holds_one(self, char: str) -> bool:
        code = ord(char)
        for low, high in self.ranges:
            if low <= code <= high:
                return True
        if not self.categories:
            return False
        category = unicodedata.category(char)
        return category in self.categories or category[0] in self.categories


_PERL: Final[dict[str, _Ranges]] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 10), (12, 13), (32, 32)),
}
_POSIX: Final[dict[str, _Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _PERL["w"],
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_ESCAPES: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_EDGES: Final = {"A": _BEGIN, "z": _END, "b": _WORD_EDGE, "B": _NOT_WORD_EDGE}

_Node = tuple[Any, ...]
"""`("set", _Set)`, `("edge", int)`, `("all", nodes)`, `("any", nodes)` or `("repeat", node, least, most)`."""


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.flags: frozenset[str] = frozenset()

    def parse(self) -> _Node:
        node = self._alternatives()
        if self.at < len(self.text):
            raise BadPattern(f"unexpected ): `{self.text}`")
        return node

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise BadPattern(f"the pattern ends too early: `{self.text}`")
        self.at += 1
        return char

    def _alternatives(self) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise BadPattern(f"expression nests deeper than {_DEEPEST}")
        flags = self.flags
        branches: list[_Node] = []
        branch: list[_Node] = []
        while (char := self._peek()) and char != ")":
            if char == "|":
                self.at += 1
                branches.append(("all", branch))
                branch = []
                continue
            node = self._atom()
            if node is not None:
                branch.append(self._repeated(node))
        self.flags = flags
        self.depth -= 1
        branches.append(("all", branch))
        return branches[0] if len(branches) == 1 else ("any", branches)

    def _atom(self) -> _Node | None:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return ("set", self._class())
        if char == ".":
            return ("set", _Set(() if "s" in self.flags else ((10, 10),), negated=True))
        if char == "^":
            return ("edge", _LINE_BEGIN if "m" in self.flags else _BEGIN)
        if char == "$":
            return ("edge", _LINE_END if "m" in self.flags else _END)
        if char in "*+?":
            raise BadPattern(f"missing argument to repetition operator: `{char}`")
        if char == "\\":
            return self._escape()
        return ("set", self._one(ord(char)))

    def _one(self, code: int) -> _Set:
        return _Set(((code, code),), folded="i" in self.flags)

    def _group(self) -> _Node | None:
        before = self.flags
        if self._peek() == "?":
            self.at += 1
            if self.text.startswith(("P<", "<"), self.at) and not self.text.startswith(("<=", "<!"), self.at):
                end = self.text.find(">", self.at)
                if end < 0:
                    raise BadPattern(f"invalid named capture: `{self.text}`")
                self.at = end + 1
            elif self._flags():
                return None
        node = self._alternatives()
        if self._peek() != ")":
            raise BadPattern(f"missing closing ): `{self.text}`")
        self.at += 1
        self.flags = before
        return node

    def _flags(self) -> bool:
        """`(?i)` sets flags for what follows (true); `(?i:` begins a group with them."""
        on, flags = True, set(self.flags)
        while True:
            char = self._take()
            if char in ":)":
                self.flags = frozenset(flags)
                return char == ")"
            if char == "-":
                on = False
            elif char in "imsU":
                flags.add(char) if on else flags.discard(char)
            else:
                raise BadPattern(f"invalid or unsupported Perl syntax: `(?{char}`")

    def _repeated(self, node: _Node) -> _Node:
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        times = 0
        while True:
            char = self._peek()
            counted = self._counted() if char == "{" else None
            if char in bounds and char:
                self.at += 1
                least, most = bounds[char]
            elif counted is not None:
                least, most = counted
            else:
                return node
            times += 1
            if times > 1:
                raise BadPattern(f"invalid nested repetition operator: `{self.text}`")
            if self._peek() == "?":  # lazy: the same strings match
                self.at += 1
            node = ("repeat", node, least, most)

    def _counted(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,5}`; anything else is a plain brace, as in Go."""
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not least.isdecimal() or not (most.isdecimal() or not most):
            return None
        low, high = int(least), int(most) if most else None if comma else int(least)
        if low > MOST_REPEATS or (high is not None and (high > MOST_REPEATS or high < low)):
            raise BadPattern(f"invalid repeat count: `{self.text[self.at : end + 1]}`")
        self.at = end + 1
        return low, high

    def _escape(self) -> _Node | None:
        char = self._take()
        if char in _EDGES:
            return ("edge", _EDGES[char])
        if char == "Q":
            end = self.text.find("\\E", self.at)
            literal = self.text[self.at : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            return ("all", [("set", self._one(ord(one))) for one in literal])
        return ("set", self._escaped_set(char))

    def _escaped_set(self, char: str) -> _Set:
        if char.lower() in _PERL and char in "dswDSW":
            return _Set(_PERL[char.lower()], negated=char.isupper())
        if char in "pP":
            return self._category(negated=char == "P")
        return self._one(self._code(char))

    def _category(self, *, negated: bool) -> _Set:
        name = self._take()
        if name == "{":
            end = self.text.find("}", self.at)
            name, self.at = self.text[self.at : end], end + 1
        negated, name = negated != name.startswith("^"), name.lstrip("^")
        if not name or name[0] not in "LMNPSZC" or len(name) > 2:
            raise BadPattern(f"this server knows the general categories of Unicode only, not {name!r}")
        return _Set((), frozenset({name}), negated=negated)

    def _code(self, char: str) -> int:
        """The character that an escape stands for."""
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            digits = self._take()
            if digits == "{":
                end = self.text.find("}", self.at)
                digits, self.at = self.text[self.at : end], end + 1
            else:
                digits += self._take()
            try:
                code = int(digits, 16)
            except ValueError:
                raise BadPattern(f"invalid escape sequence: `\\x{digits}`") from None
            if code > _LAST:
                raise BadPattern(f"invalid escape sequence: `\\x{digits}`")
            return code
        if char == "0":
            return 0
        if char.isalnum():
            raise BadPattern(f"invalid escape sequence: `\\{char}`")
        return ord(char)

    def _class(self) -> _Set:
        negated = self._peek() == "^"
        if negated:
            self.at += 1
        ranges: list[tuple[int, int]] = []
        categories: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            if self.text.startswith("[:", self.at) and (end := self.text.find(":]", self.at)) > 0:
                name, self.at = self.text[self.at + 2 : end], end + 2
                if name.lstrip("^") not in _POSIX:
                    raise BadPattern(f"invalid character class range: `[:{name}:]`")
                found = _POSIX[name.lstrip("^")]
                ranges += _complement(found) if name.startswith("^") else found
                continue
            part = self._class_part()
            if isinstance(part, _Set):
                if part.categories and part.negated:
                    raise BadPattern("\\P within brackets is not supported by this server")
                ranges += _complement(part.ranges) if part.negated else part.ranges
                categories |= part.categories
                continue
            high = part
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in {"]", ""}:
                self.at += 1
                last = self._class_part()
                if isinstance(last, _Set) or last < part:
                    raise BadPattern(f"invalid character class range: `{self.text}`")
                high = last
            ranges.append((part, high))
        self.at += 1
        return _Set(tuple(ranges), frozenset(categories), negated, "i" in self.flags)

    def _class_part(self) -> int | _Set:
        char = self._take()
        if char != "\\":
            return ord(char)
        char = self._take()
        return self._escaped_set(char) if char in "dswDSWpP" else self._code(char)


def _complement(ranges: _Ranges) -> list[tuple[int, int]]:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return [*found, (start, _LAST)]


class _Program:
    """The automaton as instructions: a `_Set`, an edge, a tuple of places to continue at, or `None` for the end."""

    def __init__(self, node: _Node) -> None:
        self.code: list[Any] = []
        self._emit(node)
        self.code.append(None)

    def _add(self, instruction: Any) -> int:
        if len(self.code) >= MOST_INSTRUCTIONS:
            raise BadPattern(f"expression too large: this server takes up to {MOST_INSTRUCTIONS} steps of a pattern")
        self.code.append(instruction)
        return len(self.code) - 1

    def _emit(self, node: _Node) -> None:
        if node[0] in {"set", "edge"}:
            self._add(node[1])
        elif node[0] == "all":
            for part in node[1]:
                self._emit(part)
        elif node[0] == "any":
            self._emit_any(node[1])
        else:
            self._emit_repeat(*node[1:])

    def _emit_any(self, nodes: list[_Node]) -> None:
        fork = self._add(())
        starts, ends = [], []
        for node in nodes:
            starts.append(len(self.code))
            self._emit(node)
            ends.append(self._add(()))
        self.code[fork] = tuple(starts)
        for end in ends:
            self.code[end] = (len(self.code),)

    def _emit_repeat(self, node: _Node, least: int, most: int | None) -> None:
        for _ in range(least):
            self._emit(node)
        if most is None:
            fork = self._add(())
            self._emit(node)
            self._add((fork,))
            self.code[fork] = (fork + 1, len(self.code))
            return
        forks = []
        for _ in range(most - least):
            forks.append(self._add(()))
            self._emit(node)
        for fork in forks:
            self.code[fork] = (fork + 1, len(self.code))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern occurs in a string; `BadPattern` if it is none of RE2's."""
    return _Automaton(_Program(_Parser(pattern).parse()).code).search


class _Automaton:
    def __init__(self, code: list[Any]) -> None:
        self._code = code
        self._has_inner_edges = any(isinstance(one, int) and one not in {_BEGIN, _END} for one in code)
        self._states: dict[frozenset[int], int] = {}
        self._members: list[frozenset[int]] = []
        self._steps: dict[tuple[int, int, str], int] = {}
        """From a state, at an edge, over a character: the next state, or -1 where the pattern has matched."""

    def search(self, value: str) -> bool:
        METER.spend(len(value) >> 3)  # what a remembered step costs beside a new one
        state, length = self._state(frozenset({0})), len(value)
        for at in range(length + 1):
            char = value[at] if at < length else ""
            look = self._look(value, at, length) if self._has_inner_edges or at in {0, length} else 0
            step = self._steps.get((state, look, char))
            state = self._step(state, look, char) if step is None else step
            if state < 0:
                return True
        return False

    def _look(self, value: str, at: int, length: int) -> int:
        look = (_BEGIN if at == 0 else 0) | (_END if at == length else 0)
        if not self._has_inner_edges:
            return look
        before, after = value[at - 1 : at] if at else "", value[at : at + 1]
        edge = _is_word(before) != _is_word(after)
        look |= _WORD_EDGE if edge else _NOT_WORD_EDGE
        look |= _LINE_BEGIN if before in {"", "\n"} else 0
        return look | (_LINE_END if after in {"", "\n"} else 0)

    def _state(self, members: frozenset[int]) -> int:
        found = self._states.get(members)
        if found is None:
            found = self._states[members] = len(self._members)
            self._members.append(members)
        return found

    def _step(self, state: int, look: int, char: str) -> int:
        members = self._members[state]
        if len(self._steps) >= _MOST_KEPT:
            self._steps.clear()
            self._states.clear()
            self._members.clear()
            state = self._state(members)
        reached = self._closure(members, look)
        METER.spend(len(reached))
        code = self._code
        if len(code) - 1 in reached:
            following = -1
        else:
            after = {at + 1 for at in reached if char and isinstance(code[at], _Set) and code[at].holds(char)}
            following = self._state(frozenset(after | {0}))
        self._steps[state, look, char] = following
        return following

    def _closure(self, members: frozenset[int], look: int) -> set[int]:
        """All instructions that are reached without a character."""
        seen: set[int] = set()
        waiting = list(members)
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            instruction = self._code[at]
            if isinstance(instruction, int):
                if look & instruction:
                    waiting.append(at + 1)
            elif isinstance(instruction, tuple) and not isinstance(instruction, _Set):
                waiting.extend(instruction)
        return seen


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")
