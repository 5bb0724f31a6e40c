"""What typed tables of printed and written JSON are made of; `tilewright.run.formats.schema` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from tilewright.core.catalogue import ROOMS
from tilewright.core.measures import Amounts as Amounts
from tilewright.core.measures import Count as Count
from tilewright.core.measures import NonNegative as NonNegative

if TYPE_CHECKING:
    RoomName = str
else:
    RoomName = Literal[ROOMS]
Counts = list[int]


class Table(BaseModel):
    """A table that has these keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
