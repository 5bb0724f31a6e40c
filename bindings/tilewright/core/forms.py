"""What typed tables of printed and written JSON are made of; ``tilewright.run.schema`` has the schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

RoomName = Literal[
    "grouping", "tiling", "allocation", "fusion", "bitwidth", "addresses", "scheduling", "residency"
]
Count = Annotated[int, Field(ge=0)]
NonNegative = Annotated[float, Field(ge=0)]
Amounts = dict[str, Count]
Counts = list[int]


class Table(BaseModel):
    """A table that has these keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
