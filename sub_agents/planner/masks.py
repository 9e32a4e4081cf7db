"""How far to both sides of its own place a row of scores goes, as far as comparisons of row and column say."""

from math import inf

from ...state.program import MatmulProgram, Statement

_FLIPPED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}
_NEGATED = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}
_Affine = tuple[int, int, int]
"""What a value has of the row's number, of the column's, and besides."""


class Masks:
    """Reads the statements of a product's epilogue, for one of the two sides."""

    def __init__(self, program: MatmulProgram, to_the_right: bool = True) -> None:
        self._right = to_the_right
        self._made = {statement.name: statement for statement in program.body}
        self._axes = len(program.space)

    def reach(self, name: object) -> int | None:
        """Elements of this statement further to that side of their row are -inf; None where that is not said.

        Sums count where what is added to -inf is a number: a score that is infinite or not a number is neither here.
        """
        found = self._made.get(str(name))
        if found is None:
            return None
        if found.op == "cast":
            return self.reach(found.args[0])
        if found.op == "add":
            return _least(*(self.reach(arg) for arg in found.args))
        if found.op == "mul" and any(isinstance(arg, float) and arg > 0 for arg in found.args):
            return _least(*(self.reach(arg) for arg in found.args))
        if found.op != "where":
            return None
        condition, yes, no = found.args
        if yes == -inf:
            return _least(self._beyond(condition, True), self.reach(no))
        return _least(self._beyond(condition, False), self.reach(yes)) if no == -inf else None

    def _beyond(self, condition: object, holds: bool) -> int | None:
        """Columns further to that side than this have a condition that holds, or does not hold."""
        found = self._made.get(str(condition))
        if found is None:
            return None
        if found.op == "logical_not":
            return self._beyond(found.args[0], not holds)
        if found.op == "cast":
            return self._chosen(found.args[0], 0.0, not holds)
        if found.op in ("eq", "ne") and not isinstance(found.args[1], str):
            return self._chosen(found.args[0], float(found.args[1]), holds == (found.op == "eq"))
        if found.op in ("logical_and", "logical_or"):
            # Either is enough for `or` to hold and for `and` not to; otherwise it takes both.
            sides = [self._beyond(arg, holds) for arg in found.args]
            if (found.op == "logical_or") == holds:
                return _least(*sides)
            told = [side for arg, side in zip(found.args, sides, strict=True) if arg is not (found.op == "logical_and")]
            return None if None in told else max((side for side in told if side is not None), default=None)
        return self._compared(found, holds)

    def _chosen(self, value: object, sought: float, holds: bool) -> int | None:
        """As `_beyond`, of whether a choice between two numbers equals one, or a condition cast to numbers does."""
        found = self._made.get(str(value))
        if found is None:
            return None
        if found.op == "where" and not any(isinstance(arg, str) for arg in found.args[1:]):
            first, second = (float(arg) == sought for arg in found.args[1:])
            return None if first == second else self._beyond(found.args[0], holds == first)
        if found.op == "cast" and sought == 0.0:
            return self._chosen(found.args[0], 0.0, holds)
        return self._beyond(value, not holds) if found.dtype == "bool" and sought == 0.0 else None

    def _compared(self, compared: Statement, holds: bool) -> int | None:
        if compared.op not in _NEGATED:
            return None
        left, right = (self._affine(arg) for arg in compared.args)
        if left is None or right is None:
            return None
        rows, columns, offset = (x - y for x, y in zip(left, right, strict=True))
        op = compared.op if holds else _NEGATED[compared.op]
        if (rows, columns) == (1, -1):
            rows, columns, offset, op = -1, 1, -offset, _FLIPPED[op]
        # As `column - row + offset >= 0`, which holds from some column on, or `<= 0`, which holds up to one.
        if (rows, columns) != (-1, 1) or op not in (("ge", "gt") if self._right else ("le", "lt")):
            return None
        found = -offset if self._right else offset
        return found - 1 if op in ("ge", "le") else found

    def _affine(self, arg: object) -> _Affine | None:
        if isinstance(arg, (int, float)) and not isinstance(arg, bool):
            return (0, 0, int(arg)) if float(arg).is_integer() else None
        found = self._made.get(str(arg))
        if found is None:
            return None
        if found.op == "iota":
            place = int(found.args[0]) - (self._axes - 2)
            return (int(place == 0), int(place == 1), 0) if place >= 0 else None
        if found.op == "cast" and found.dtype in ("int64", "int32", "float32", "float64", "index"):
            return self._affine(found.args[0])
        if found.op not in ("add", "sub", "neg"):
            return None
        parts = [self._affine(each) for each in found.args]
        if None in parts:
            return None
        first = parts[0] if found.op != "neg" else (0, 0, 0)
        second = parts[-1]
        assert first is not None
        assert second is not None
        sign = 1 if found.op == "add" else -1
        return first[0] + sign * second[0], first[1] + sign * second[1], first[2] + sign * second[2]


def _least(*found: int | None) -> int | None:
    return min((each for each in found if each is not None), default=None)
