# SPDX-License-Identifier: Apache-2.0
"""Schemas as Pydantic prints them, and as the vendors' Python SDKs reword them. Prints one JSON
object a line: {"of", "name", "schema"}. Needs the packages of tests/conformance/requirements.txt."""

import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import sys

import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

import anthropic
import openai
import pydantic
from typing_extensions import Required, TypedDict
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, TypeAdapter, conint, constr

T = TypeVar("T")


class Colour(str, enum.Enum):
    red = "red"
    green = "green"
    blue = "blue"


class Level(enum.IntEnum):
    low = 1
    high = 3


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Movie(TypedDict, total=False):
    title: Required[str]
    year: int


class Person(BaseModel):
    """Somebody who takes part."""

    name: str = Field(description="First and last name", min_length=1)
    age: Annotated[int, Field(ge=0, le=130)]
    mail: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$")] | None = None


class Address(BaseModel):
    street: str
    city: str = Field(..., max_length=80)
    postcode: Annotated[str, Field(pattern=r"^\d{5}$")]
    country: Literal["DE", "AT", "CH"] = "DE"


class Customer(Person):
    address: Address
    others: list[Address] = []
    colour: Colour = Colour.red


class Tree(BaseModel):
    value: int
    left: Optional["Tree"] = None
    right: Optional["Tree"] = None


class Folder(BaseModel):
    name: str
    folders: list["Folder"] = Field(default_factory=list)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Bird(BaseModel):
    kind: Literal["parrot", "finch"]
    words: set[str] = set()


Pet = Annotated[Union[Cat, Dog, Bird], Field(discriminator="kind")]


class Owner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    pet: Pet
    pets: list[Pet] = Field(max_length=3)


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: int | None = None


class Step(BaseModel):
    explanation: str
    output: str


class Reasoning(BaseModel):
    steps: list[Step]
    final_answer: str


class Event(BaseModel):
    name: str
    date: datetime.date
    participants: list[str]


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", title="An order")
    id: uuid.UUID
    at: datetime.datetime
    total: decimal.Decimal
    lines: Annotated[list[Annotated[int, Field(multiple_of=5, gt=0)]], Field(min_length=1)]
    discount: float = Field(0, ge=0, lt=1)
    note: Annotated[str, Field(max_length=20000)] | None = None


class Operator(str, enum.Enum):
    eq = "="
    gt = ">"
    lt = "<"


class Condition(BaseModel):
    column: str
    operator: Operator
    value: Union[str, int, float]


class Query(BaseModel):
    table: Literal["orders", "customers"]
    columns: list[str]
    conditions: list[Condition]
    order_by: Literal["asc", "desc"] = "asc"


class Node(BaseModel):
    tag: Literal["div", "p", "button"]
    label: str
    children: list["Node"]
    attributes: dict[str, str]


class Labels(BaseModel):
    spam: bool
    topic: Literal["sports", "politics", "other"]
    confidence: Annotated[float, Field(ge=0, le=1)]


class Labelled(BaseModel):
    labels: dict[str, Labels]
    by_level: dict[Level, int] = {}


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    file_name: str = Field(alias="fileName", examples=["a.txt"])
    size_: int = Field(alias="size", default=0, deprecated=True)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    kind: str


class Numbers(BaseModel):
    port: Annotated[int, Field(ge=1, le=65535)]
    big: Annotated[int, Field(le=2**53 - 1, ge=-(2**53 - 1))] = 0
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.5
    even: Annotated[int, Field(multiple_of=2)] = 0
    cents: Annotated[float, Field(multiple_of=0.01, ge=0)] = 0
    prime: Annotated[int, Field(multiple_of=101)] = 0


class Times(BaseModel):
    day: datetime.date
    moment: datetime.datetime
    time: datetime.time
    span: datetime.timedelta


class Nets(BaseModel):
    v4: ipaddress.IPv4Address
    v6: ipaddress.IPv6Address
    net: ipaddress.IPv4Network
    url: HttpUrl
    any_url: AnyUrl = None


class Codes(BaseModel):
    sku: constr(pattern=r"^[A-Z]{2}-\d{4}$", max_length=7)
    slug: constr(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", min_length=3, max_length=40)
    hex: constr(pattern=r"^#(?:[0-9a-fA-F]{3}){1,2}$")
    phone: constr(pattern=r"^\+?[1-9]\d{1,14}$")


PLAIN = {
    "int": int, "float": float, "str": str, "bool": bool, "none": None, "any": Any,
    "list of ints": list[int], "list of anything": list, "set of strings": set[str],
    "frozenset of colours": frozenset[Colour], "set of literals": set[Literal["r", "w", "x"]],
    "set of booleans": set[bool], "tuple": tuple[int, str], "tuple of any length": tuple[float, ...],
    "empty tuple": tuple[()], "dict of ints": dict[str, int], "dict": dict,
    "dict by colour": dict[Colour, int], "dict by pattern": dict[constr(pattern="^[a-z]+$"), str],
    "dict by int": dict[int, str], "nested dict": dict[str, dict[str, list[float]]],
    "optional": Optional[int], "union": Union[int, str, None], "union of lists": list[int] | list[str],
    "literal": Literal["a", "b"], "literal of kinds": Literal["a", 1, True, None],
    "literal alone": Literal["only"], "enum": Colour, "int enum": Level, "named tuple": Point,
    "typed dict": Movie, "date": datetime.date, "datetime": datetime.datetime,
    "time": datetime.time, "timedelta": datetime.timedelta, "uuid": uuid.UUID,
    "decimal": decimal.Decimal, "path": pathlib.Path, "bytes": bytes, "url": HttpUrl,
    "ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address,
    "bounded int": conint(gt=0, lt=100), "positive": pydantic.PositiveInt,
    "non negative float": pydantic.NonNegativeFloat, "finite": pydantic.FiniteFloat,
    "multiple of 7": conint(multiple_of=7), "multiple of 250": conint(multiple_of=250, ge=0),
    "multiple of 12 between": conint(multiple_of=12, ge=-24, le=240),
    "short string": constr(min_length=2, max_length=10), "upper": constr(pattern="^[A-Z]+$"),
    "long string": constr(max_length=50_000), "very long string": constr(max_length=1_000_000),
    "past date": pydantic.PastDate, "json": pydantic.Json, "secret": pydantic.SecretStr,
    "non empty list": Annotated[list[str], Field(min_length=1, max_length=5)],
    "non empty dict": Annotated[dict[str, int], Field(min_length=1, max_length=3)],
    "list of tuples": list[tuple[str, Annotated[int, Field(ge=0)]]],
    "matrix": Annotated[list[Annotated[list[float], Field(min_length=3, max_length=3)]],
                        Field(min_length=3, max_length=3)],
    "base64": pydantic.Base64Str, "import string": pydantic.ImportString,
}  # fmt: skip

MODELS = [
    Person, Address, Customer, Tree, Folder, Cat, Dog, Bird, Owner, Page[int], Page[Person], Step,
    Reasoning, Event, Order, Condition, Query, Node, Labels, Labelled, Aliased, Open, Numbers, Times,
    Nets, Codes,
]  # fmt: skip


def put(of, name, schema):
    print(json.dumps({"of": of, "name": name, "schema": schema}, ensure_ascii=False))


def main():
    of = "pydantic " + pydantic.VERSION
    for name, kind in PLAIN.items():
        put(of, name, TypeAdapter(kind).json_schema())
    for model in MODELS:
        put(of, model.__name__, model.model_json_schema())
    put(of, "Pet", TypeAdapter(Pet).json_schema())
    put(of, "Order as it is written", Order.model_json_schema(mode="serialization"))
    of = "openai " + openai.__version__
    for model in MODELS:
        try:
            tool = openai.pydantic_function_tool(model)
        except TypeError as error:  # what the SDK itself refuses
            print(model.__name__, error, file=sys.stderr)
            continue
        put(of, model.__name__, tool["function"]["parameters"])
    of = "anthropic " + anthropic.__version__
    for model in MODELS:
        put(of, model.__name__, anthropic.transform_schema(model))


main()
