"""A small TPC-H over three databases: rows and refreshes from a seed, so small that every query still finds some.

    parties  region, nation, customer, supplier      goods  part, partsupp      sales  orders, lineitem

The domains are the benchmark's, thinned out: fewer nations, brands and kinds of parts, so that the 22 queries meet
rows among a thousand lines. A refresh is what the benchmark's two refresh functions do (new orders, old orders gone)
and what they do not: lines, customers, parts, suppliers and stocks that change.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["SCHEMAS", "Business", "Statement"]

MONEY = "numeric(15,2)"
SCHEMAS = {
    "parties": {
        "region": "r_regionkey int PRIMARY KEY, r_name text, r_comment text",
        "nation": "n_nationkey int PRIMARY KEY, n_name text, n_regionkey int, n_comment text",
        "customer": (
            "c_custkey int PRIMARY KEY, c_name text, c_address text, c_nationkey int, c_phone text,"
            f" c_acctbal {MONEY}, c_mktsegment text, c_comment text"
        ),
        "supplier": (
            "s_suppkey int PRIMARY KEY, s_name text, s_address text, s_nationkey int, s_phone text,"
            f" s_acctbal {MONEY}, s_comment text"
        ),
    },
    "goods": {
        "part": (
            "p_partkey int PRIMARY KEY, p_name text, p_mfgr text, p_brand text, p_type text, p_size int,"
            f" p_container text, p_retailprice {MONEY}, p_comment text"
        ),
        "partsupp": (
            f"ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost {MONEY}, ps_comment text,"
            " PRIMARY KEY (ps_partkey, ps_suppkey)"
        ),
    },
    "sales": {
        "orders": (
            f"o_orderkey int PRIMARY KEY, o_custkey int, o_orderstatus text, o_totalprice {MONEY}, o_orderdate date,"
            " o_orderpriority text, o_clerk text, o_shippriority int, o_comment text"
        ),
        "lineitem": (
            f"l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity {MONEY},"
            f" l_extendedprice {MONEY}, l_discount {MONEY}, l_tax {MONEY}, l_returnflag text, l_linestatus text,"
            " l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text,"
            " l_comment text, PRIMARY KEY (l_orderkey, l_linenumber)"
        ),
    },
}

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = [
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("CHINA", 2),
    ("INDIA", 2),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("KENYA", 0),
    ("SAUDI ARABIA", 4),
]
SEGMENTS = ["BUILDING", "AUTOMOBILE", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
TYPES = [
    f"{a} {b} {c}" for a in ("ECONOMY", "PROMO", "MEDIUM") for b in ("ANODIZED", "POLISHED") for c in ("BRASS", "TIN")
]
CONTAINERS = ["SM CASE", "SM BOX", "MED BAG", "MED PKG", "LG CASE", "LG PACK"]
BRANDS = ["Brand#12", "Brand#23", "Brand#45"]
COLOURS = ["forest", "green", "almond", "linen"]
MODES = ["MAIL", "SHIP", "AIR", "REG AIR"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD"]
SIZES = [1, 4, 7, 10, 14, 19, 23, 36, 45, 49, 50]
CODES = [13, 31, 23, 29, 11, 12]
FIRST_DAY = datetime.date(1992, 1, 1)
TODAY = datetime.date(1995, 6, 17)

Statement = tuple[str, str, tuple[object, ...]]
"""A source, a statement and its parameters."""


@dataclass
class Business:
    """All rows at the start, then refresh after refresh; the same ones for the same seed."""

    seed: int = 24
    suppliers: int = 16
    parts: int = 40
    customers: int = 45
    orders: int = 260
    made: list[int] = field(default_factory=list)
    """Keys of the orders that there are."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.next_order = 1

    def start(self) -> Iterator[Statement]:
        choose = self.random.choice
        for key, name in enumerate(REGIONS):
            yield _insert("parties", "region", key, name, "")
        for key, (name, region) in enumerate(NATIONS):
            yield _insert("parties", "nation", key, name, region, "")
        for key in range(1, self.suppliers + 1):
            comment = choose(["", "", "", "Customer has Complaints"])
            nation = key % len(NATIONS)
            yield _insert(
                "parties",
                "supplier",
                key,
                f"Supplier#{key}",
                f"{key} Road",
                nation,
                self.phone(),
                self.money(),
                comment,
            )
        for key in range(1, self.customers + 1):
            name, address, nation = f"Customer#{key}", f"{key} Street", self.random.randrange(len(NATIONS))
            row = (key, name, address, nation, self.phone(), self.money(), choose(SEGMENTS), "")
            yield _insert("parties", "customer", *row)
        for key in range(1, self.parts + 1):
            yield _insert("goods", "part", key, *self.part(key))
            for supplier in self.random.sample(range(1, self.suppliers + 1), 4):
                cost = round(self.random.uniform(1, 1000), 2)
                yield _insert("goods", "partsupp", key, supplier, self.random.randint(1, 100), cost, "")
        for _ in range(self.orders):
            yield from self.new_order()

    def part(self, key: int) -> tuple[object, ...]:
        choose = self.random.choice
        name = f"{choose(COLOURS)} {choose(COLOURS)}"
        price = round(900 + key / 10, 2)
        return (
            name,
            f"Manufacturer#{key % 5}",
            choose(BRANDS),
            choose(TYPES),
            choose(SIZES),
            choose(CONTAINERS),
            price,
            "",
        )

    def new_order(self) -> Iterator[Statement]:
        """An order with one to seven lines; a third of the customers never order."""
        key, self.next_order = self.next_order, self.next_order + 1
        self.made.append(key)
        day = FIRST_DAY + datetime.timedelta(days=self.random.randrange(6 * 365))
        lines = [self.line(day) for _ in range(self.random.randint(1, 7))]
        customer = self.random.choice([c for c in range(1, self.customers + 1) if c % 3])
        status = "F" if day < TODAY else self.random.choice("OP")
        comment = self.random.choice(["", "", "special packages, requests"])
        total = sum(float(str(line[3])) for line in lines)
        row = (key, customer, status, round(total, 2), day, self.random.choice(PRIORITIES), "Clerk", 0, comment)
        yield _insert("sales", "orders", *row)
        for number, (part, supplier, *rest) in enumerate(lines, start=1):
            yield _insert("sales", "lineitem", key, part, supplier, number, *rest)

    def line(self, day: datetime.date) -> tuple[object, ...]:
        choose, later = self.random.choice, self.random.randint
        quantity = later(1, 50)
        shipped = day + datetime.timedelta(days=later(1, 121))
        promised = day + datetime.timedelta(days=later(30, 90))
        received = shipped + datetime.timedelta(days=later(1, 30))
        flag = choose("RA") if received <= TODAY else "N"
        status = "F" if shipped <= TODAY else "O"
        price = round(quantity * self.random.uniform(900, 1100), 2)
        part, supplier = later(1, self.parts), later(1, self.suppliers)
        rates = (later(0, 10) / 100, later(0, 8) / 100)
        how = (choose(INSTRUCTIONS), choose(MODES), "")
        return part, supplier, quantity, price, *rates, flag, status, shipped, promised, received, *how

    def refresh(self) -> Iterator[list[Statement]]:
        """The transactions of one refresh, each a list of statements at one source."""
        choose, later = self.random.choice, self.random.randint
        for _ in range(9):
            yield list(self.new_order())
        gone = [self.made.pop(self.random.randrange(len(self.made))) for _ in range(8)]
        yield [
            ("sales", "DELETE FROM lineitem WHERE l_orderkey = ANY(%s)", (gone,)),
            ("sales", "DELETE FROM orders WHERE o_orderkey = ANY(%s)", (gone,)),
        ]
        key = choose(self.made)
        yield [
            ("sales", "UPDATE lineitem SET l_quantity = l_quantity + 7, l_extendedprice = l_extendedprice + 7000.07"
             " WHERE l_orderkey = %s AND l_linenumber = 1", (key,)),
            ("sales", "UPDATE lineitem SET l_receiptdate = l_receiptdate + 40 WHERE l_orderkey = %s",
             (choose(self.made),)),
            ("sales", "UPDATE orders SET o_orderpriority = %s, o_custkey = %s WHERE o_orderkey = %s",
             (choose(PRIORITIES), later(1, self.customers), choose(self.made))),
        ]  # fmt: skip
        yield [
            ("parties", "UPDATE customer SET c_mktsegment = %s, c_acctbal = %s, c_nationkey = %s WHERE c_custkey = %s",
             (choose(SEGMENTS), self.money(), self.random.randrange(len(NATIONS)), later(1, self.customers))),
            ("parties", "UPDATE customer SET c_phone = %s, c_acctbal = 9000 WHERE c_custkey = %s",
             (self.phone(), 3 * later(1, self.customers // 3))),
            ("parties", "UPDATE supplier SET s_comment = %s, s_nationkey = %s WHERE s_suppkey = %s",
             (choose(["", "Customer Complaints"]), self.random.randrange(len(NATIONS)), later(1, self.suppliers))),
        ]  # fmt: skip
        changed = later(1, self.parts)
        yield [
            ("goods", "UPDATE part SET p_name = %s, p_mfgr = %s, p_brand = %s, p_type = %s, p_size = %s,"
             " p_container = %s, p_retailprice = %s, p_comment = %s WHERE p_partkey = %s",
             (*self.part(changed), changed)),
            ("goods", "UPDATE partsupp SET ps_supplycost = %s, ps_availqty = %s WHERE ps_partkey = %s",
             (round(self.random.uniform(1, 1000), 2), later(1, 100), later(1, self.parts))),
            ("goods", "DELETE FROM partsupp WHERE ctid = (SELECT min(ctid) FROM partsupp WHERE ps_partkey = %s)",
             (later(1, self.parts),)),
        ]  # fmt: skip

    def phone(self) -> str:
        return f"{self.random.choice(CODES)}-{self.random.randrange(1000)}"

    def money(self) -> float:
        return round(self.random.uniform(-900, 9999), 2)


def _insert(source: str, table: str, *row: object) -> Statement:
    return source, f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row
