"""Names the shape of a JSON value; nothing else."""

from collections.abc import Mapping, Sequence

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonObject = dict[str, Json]
