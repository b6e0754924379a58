"""Types to be filled in by a model: people, and teams of them."""

from enum import Enum
from typing import Annotated, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=10)
    age: int = Field(ge=0, le=150)
    mood: Literal["good", "bad"] = "good"
    colour: Colour | None = None
    tags: list[str] = Field(default=[], max_length=2)
    friend: Optional["Person"] = None
    born: int = 0
    died: int = 0

    @model_validator(mode="after")
    def in_order(self):
        if self.died and self.died < self.born:
            raise ValueError("died before birth")
        return self


class Team(BaseModel):
    people: list[Person]
    scores: dict[str, Annotated[float, Field(gt=0)]] = {}
    pair: tuple[int, str] | None = None
