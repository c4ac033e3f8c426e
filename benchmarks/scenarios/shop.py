"""Countries, customers, sales and costs (paper 004, Section 5.2): the tables, the view of each customer's total, and
changes to sales and to customers.

    crm: countries 23, customers 55,500        shop: sales 918,843, costs 822,112

Attributes are as many as the paper's: 10, 23, 8 and 6. A sale meets one cost by the four columns that both have.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["ACTIONS", "SOURCES", "VIEW", "Changes", "Sizes", "created"]

SOURCES = {"crm": ("countries", "customers"), "shop": ("sales", "costs")}
ACTIONS = ("insert", "delete", "update")


@dataclass(frozen=True)
class Sizes:
    countries: int = 23
    customers: int = 55_500
    sales: int = 918_843
    costs: int = 822_112


VIEW = """
SELECT countries.country_id, countries.country_name, countries.country_region_id, countries.country_region,
       customers.cust_id, customers.cust_first_name, customers.cust_last_name,
       SUM(sales.quantity_sold * costs.unit_price) AS total, COUNT(*) AS sold
FROM crm.countries AS countries
JOIN crm.customers AS customers ON countries.country_id = customers.country_id
JOIN shop.sales AS sales ON customers.cust_id = sales.cust_id
JOIN shop.costs AS costs ON sales.time_id = costs.time_id AND sales.promo_id = costs.promo_id
     AND sales.channel_id = costs.channel_id AND sales.prod_id = costs.prod_id
GROUP BY countries.country_id, countries.country_name, countries.country_region_id, countries.country_region,
         customers.cust_id, customers.cust_first_name, customers.cust_last_name
"""


def _cost(number: str) -> str:
    """The four columns that name a cost: products, days, channels and promotions in all combinations."""
    return (
        f"{number} % 72 AS prod_id, date '2019-01-01' + {number} / 72 % 1461 AS time_id,"
        f" {number} / 105192 % 2 AS promo_id, {number} / 210384 AS channel_id"
    )


def _sale(number: str, sizes: Sizes) -> str:
    return (
        f"SELECT {number} AS sale_id, {number} * 31 % {sizes.customers} AS cust_id,"
        f" {_cost(f'({number} * 7919::bigint % {sizes.costs})::int')},"
        f" 1 + {number} % 5 AS quantity_sold, ({number} % 9000) / 10.0 AS amount_sold"
    )


def _customer(number: str, sizes: Sizes) -> str:
    fillers = ", ".join(f"{number} % {10 + place} AS cust_attribute_{place}" for place in range(1, 19))
    return (
        f"SELECT {number} AS cust_id, 'first ' || {number} % 1300 AS cust_first_name,"
        f" 'last ' || {number} % 900 AS cust_last_name, {number} % {sizes.countries} AS country_id,"
        f" 1920 + {number} % 80 AS cust_year_of_birth, {fillers}"
    )


def created(source: str, sizes: Sizes) -> list[str]:
    """The tables of a source, with keys, the indexes that joins need, and statistics."""
    if source == "crm":
        fillers = ", ".join(f"i % {3 + place} AS country_attribute_{place}" for place in range(1, 7))
        return [
            "CREATE TABLE countries AS SELECT i AS country_id, 'country ' || i AS country_name, i % 6 AS"
            f" country_region_id, 'region ' || i % 6 AS country_region, {fillers}"
            f" FROM generate_series(0, {sizes.countries - 1}) AS i",
            f"CREATE TABLE customers AS {_customer('i', sizes)} FROM generate_series(0, {sizes.customers - 1}) AS i",
            "ALTER TABLE countries ADD PRIMARY KEY (country_id)",
            "ALTER TABLE customers ADD PRIMARY KEY (cust_id)",
            "CREATE INDEX ON customers (country_id)",
            "ANALYZE countries, customers",
        ]
    return [
        f"CREATE TABLE sales AS {_sale('i', sizes)} FROM generate_series(0, {sizes.sales - 1}) AS i",
        f"CREATE TABLE costs AS SELECT {_cost('i')}, (i % 800) / 10.0 AS unit_cost,"
        f" ((1 + i % 1000) / 10.0)::numeric(10,2) AS unit_price FROM generate_series(0, {sizes.costs - 1}) AS i",
        "ALTER TABLE sales ADD PRIMARY KEY (sale_id)",
        "ALTER TABLE costs ADD PRIMARY KEY (prod_id, time_id, promo_id, channel_id)",
        "CREATE INDEX ON sales (cust_id)",
        "CREATE INDEX ON sales (prod_id, time_id, promo_id, channel_id)",
        "ANALYZE sales, costs",
    ]


@dataclass
class Changes:
    """Changes of one kind to `k` rows of sales or customers. What a delete takes away the next insert brings back."""

    sizes: Sizes
    seed: int = 1
    _random: random.Random = field(init=False)
    _away: dict[str, list[int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def action(self, table: str, kind: str, k: int) -> list[str]:
        """One statement per row."""
        return [self._statement(table, kind, [number]) for number in self._rows(table, kind, k)]

    def batch(self, table: str, k: int) -> list[str]:
        """A third of each kind, the larger part updates: one transaction of at most three statements."""
        gone = self._rows(table, "delete", k // 3)
        back = self._rows(table, "insert", k // 3) if len(self._away.get(table, ())) > len(gone) else []
        rest = self._rows(table, "update", k - len(gone) - len(back))
        parts = {"delete": gone, "insert": back, "update": rest}
        return [self._statement(table, kind, rows) for kind, rows in parts.items() if rows]

    def _rows(self, table: str, kind: str, k: int) -> list[int]:
        away = self._away.setdefault(table, [])
        if kind == "insert":
            taken, self._away[table] = away[:k], away[k:]  # those that have been away for longest
            return taken
        gone = set(away)
        most = self.sizes.sales if table == "sales" else self.sizes.customers
        picked = [n for n in self._random.sample(range(most), k + len(gone)) if n not in gone][:k]
        if kind == "delete":
            away.extend(picked)
        return picked

    def _statement(self, table: str, kind: str, rows: Sequence[int]) -> str:
        numbers = "'{" + ",".join(map(str, rows)) + "}'::int[]"
        key, value, make = _TABLES[table]
        if kind == "insert":
            return f"INSERT INTO {table} {make('i', self.sizes)} FROM unnest({numbers}) AS i"
        if kind == "delete":
            return f"DELETE FROM {table} WHERE {key} = ANY ({numbers})"
        return f"UPDATE {table} SET {value} WHERE {key} = ANY ({numbers})"


_TABLES: dict[str, tuple[str, str, Callable[[str, Sizes], str]]] = {
    "sales": ("sale_id", "quantity_sold = quantity_sold % 9 + 1", _sale),
    "customers": ("cust_id", "cust_last_name = cust_last_name || 'x'", _customer),
}
"""By table: its key, what an update does, and how a row is made from its number."""
