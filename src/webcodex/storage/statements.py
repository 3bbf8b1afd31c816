"""Compiles a statement once, so that a hot one costs no more than its SQL.

SQLAlchemy Core writes the SQL of both engines; a prepared statement goes straight to the driver.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.sql import Delete, Insert, Select, Update

Statement = Select[Any] | Insert | Update | Delete
Row = Any
_Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    sql: str
    names: tuple[str, ...] | None
    fixed: dict[str, object]
    row: Callable[[Any], Row] | None


class Prepared:
    """A statement whose text does not depend on its values; make it once, at module level."""

    __slots__ = ("_by_dialect", "statement")

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._by_dialect: dict[str, _Compiled] = {}

    def compiled(self, dialect: Dialect) -> _Compiled:
        """Returns the statement as that dialect's driver takes it."""
        found = self._by_dialect.get(dialect.name)
        if found is None:
            found = self._by_dialect[dialect.name] = _compile(self.statement, dialect)
        return found


def bound(compiled: _Compiled, values: Mapping[str, object]) -> Any:
    """Returns the values in the driver's own form: by place or by name."""
    if compiled.names is None:
        return {**compiled.fixed, **values}
    fixed = compiled.fixed
    return [values[name] if name in values else fixed[name] for name in compiled.names]


def _compile(statement: Statement, dialect: Dialect) -> _Compiled:
    compiled = statement.compile(dialect=dialect)
    places = getattr(compiled, "positiontup", None)
    row = _row_maker(statement, dialect) if isinstance(statement, Select) else None
    return _Compiled(str(compiled), None if places is None else tuple(places), dict(compiled.params), row)


def _row_maker(statement: Select[Any], dialect: Dialect) -> Callable[[Any], Row]:
    columns = list(statement.selected_columns)
    names = [str(column.key) for column in columns]
    # The fields are only known here.
    shape: Any = namedtuple("StoredRow", names)  # type: ignore[misc]  # noqa: PYI024
    converts: list[tuple[int, _Convert]] = []
    for place, column in enumerate(columns):
        convert = column.type.dialect_impl(dialect).result_processor(dialect, None)
        if convert is not None:
            converts.append((place, convert))
    if not converts:
        made: Callable[[Any], Row] = shape._make
        return made

    def convert_row(cells: Any) -> Row:
        changed = list(cells)
        for place, convert in converts:
            changed[place] = convert(changed[place])
        return shape._make(changed)

    return convert_row
