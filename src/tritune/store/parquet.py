"""Columns to Parquet and back, by DuckDB; numpy arrays in, numpy arrays out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tritune.errors import TrituneError

Column = npt.NDArray[Any]


def write_columns(path: Path, columns: Mapping[str, Column]) -> None:
    """Write equally long columns (numbers, or objects holding str) as one zstd-compressed file.

    Raises OSError where the disk is full or the folder gone; what was written of the file is then removed.
    """
    import duckdb

    with _database() as database:
        database.register("columns_of_run", dict(columns))
        target = str(path).replace("'", "''")  # COPY takes no parameter for its file
        try:
            database.execute(
                f"COPY (SELECT * FROM columns_of_run) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"  # noqa: S608
            )
        except duckdb.Error as error:
            path.unlink(missing_ok=True)
            raise OSError(_reason(error)) from error


def read_columns(path: Path) -> dict[str, Column]:
    """All columns of a Parquet file. Raises TrituneError (slug run-unreadable) where it is none, or torn."""
    import duckdb

    with _database() as database:
        try:
            found: dict[str, Any] = database.execute(
                "SELECT * FROM read_parquet($1)", [str(path)]
            ).fetchnumpy()
        except duckdb.Error as error:
            raise TrituneError(
                f"{path} cannot be read: {_reason(error)}",
                slug="run-unreadable",
                hint="The file is damaged or is no Parquet file; measure again.",
            ) from error
    return {name: np.ma.filled(column) for name, column in found.items()}


@contextlib.contextmanager
def _database() -> Iterator[Any]:
    """An empty database in memory that fetches nothing from anywhere and uses one thread."""
    import duckdb

    database = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": "1",
        },
    )
    try:
        yield database
    finally:
        database.close()


def _reason(error: Exception) -> str:
    """The first line of DuckDB's message, without its kind."""
    first = str(error).partition("\n")[0]
    return first.partition(": ")[2] or first
