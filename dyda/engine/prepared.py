"""Prepared queries: for a few rows Spark's plan of a query is kept, and only the rows are new.

    once    render ─▶ parse, analyse          ─▶ Project ─ Filter ─ Project ─ LocalRelation      (a template)
    then    Arrow ──▶ LocalRelation ─▶ each operator in turn, by Spark's own rule ─▶ Arrow        (no job)

Half of a small unit is Spark parsing, planning and running a job. Spark has no prepared statements, but its optimizer
has a rule that evaluates a Project or a Filter over rows at hand (`ConvertToLocalRelation`), which is how a job over
few rows comes to its result. A template is planned without this rule, so that its operators stay; later rows take the
place of the first ones and the rule is applied to one operator after the other. So Spark's own expressions decide, in
its own JVM, as they do in a job.

One template serves many evaluations (`f` is the number of one in its template), because a unit that asks for twenty
must not pay for twenty. It grows when an evaluation comes that it does not know yet. Columns are called after their
types, so that those of one evaluation are used for others, too.

What is not a chain of Project and Filter over one relation, what has many rows, and what fails takes the ordinary way;
a failure is then told in the ordinary words. Where a later Spark has other internals, everything takes that way, which
is said once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, UnknownException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from pyspark.util import _load_from_socket

from dyda.engine.frames import spark_type
from dyda.engine.typed_columns import arrow_type
from vm.evaluation import Evaluation, render_combined
from vm.join_block import CarriedColumn, JoinBlock

__all__ = ["Prepared", "Question"]

MOST_ROWS = 10_000
"""Beyond so many rows a job costs less: rows are evaluated one by one here, in one thread."""
MOST_BYTES = 2 * 1024 * 1024
"""More would take longer to reach Java than a file that Spark reads."""

BRANCHES = 24
"""Evaluations of one template: planning it takes longer with each."""
TEMPLATES = 100
FORGOTTEN = 200
"""A template that grows leaves out what was not asked for in so many units: those views have other definitions now."""

ROWS_AT_ONCE = 64
"""Java sends an answer of more than 8 KB in several writes, and waits some 40 ms between them: more rows than this are
served through a socket of their own, as the rows of a job are."""

VIEW = "prepared"

RULE = "ConvertToLocalRelation"
"""Spark's rule that evaluates an operator over rows at hand."""


@dataclass(frozen=True)
class Question:
    """An evaluation, the Spark types of its items, and its combinations."""

    evaluation: Evaluation
    types: Sequence[str]
    table: pa.Table

    @property
    def kinds(self) -> dict[str, str]:
        """The Spark type of each column; those that no relation has are numbers of 64 bits."""
        frames = self.evaluation.frames
        known = {column.name: column.spark_type or "STRING" for one in frames for column in one.occurrence.frame}
        return {name: known.get(name, "BIGINT").upper() for name in self.table.column_names}

    def text(self) -> str:
        """Its query, which tells it from others."""
        width, tagged = len(self.evaluation.block.items), self.evaluation.tagged
        return render_combined({0: (self.evaluation, self.types)}, "rows", width, tagged=tagged)


@dataclass(frozen=True)
class _Key:
    """Questions with the same one are evaluated alike."""

    text: str
    kinds: tuple[tuple[str, str], ...]
    tagged: bool


class _Places:
    """What columns are called in templates: after their types, so that those of one question serve others, too."""

    def __init__(self) -> None:
        self._types: dict[str, int] = {}

    def of(self, key: _Key) -> dict[str, str]:
        """The place of each column. Numbers that no relation has keep their names: they are the same for all."""
        used: dict[str, int] = {}
        found = {}
        for name, kind in key.kinds:
            prefix = re.match(r"_*(?=[tv][0-9]+_[0-9]+$)", name)
            if prefix is None:
                found[name] = name
                continue
            # The prefix is there because the view's text uses such names for something else.
            family = f"{prefix[0]}v{self._types.setdefault(kind, len(self._types))}"
            found[name] = f"{family}_{used.get(family, 0)}"
            used[family] = used.get(family, 0) + 1
        return found


@dataclass
class _Template:
    """The evaluations that share a plan, each with its number."""

    numbers: dict[_Key, int] = field(default_factory=dict)
    asked: list[tuple[Evaluation, Sequence[str]]] = field(default_factory=list)
    """Without their rows."""
    places: dict[_Key, dict[str, str]] = field(default_factory=dict)
    used: dict[_Key, int] = field(default_factory=dict)
    """The unit in which each was asked last."""
    kinds: dict[str, str] = field(default_factory=dict)
    """By place, the Spark type."""
    plan: _Plan | None = None

    def takes(self, key: _Key) -> bool:
        """Whether it can grow by this one: all are tagged or none is."""
        return all(key.tagged == other.tagged for other in self.numbers) and len(self.numbers) < BRANCHES

    def add(self, key: _Key, evaluation: Evaluation, types: Sequence[str], places: dict[str, str], used: int) -> None:
        self.numbers[key] = len(self.numbers)
        self.asked.append((replace(evaluation, frames=()), types))
        self.places[key] = places
        self.used[key] = used
        self.kinds |= {places[name]: kind for name, kind in key.kinds}

    def rows(self, tables: Mapping[int, tuple[_Key, pa.Table]]) -> pa.Table:
        """The rows of all tables: w, the place of a table; f, the number of its question; then the columns."""
        schema = pa.schema(
            [pa.field(name, pa.int32(), False) for name in ("w", "f")]
            + [pa.field(f"p{place}", arrow_type(kind)) for place, kind in enumerate(self.kinds.values())]
        )
        parts = []
        for place, (key, table) in tables.items():
            count = table.num_rows
            arrays: list[Any] = [
                pa.repeat(pa.scalar(number, pa.int32()), count) for number in (place, self.numbers[key])
            ]
            columns = {self.places[key][name]: name for name in table.column_names}
            arrays += [
                table.column(columns[name]) if name in columns else pa.nulls(count, arrow_type(kind))
                for name, kind in self.kinds.items()
            ]
            parts.append(pa.Table.from_arrays(arrays, schema=schema))
        return pa.concat_tables(parts).combine_chunks()

    def query(self, name: str) -> str:
        columns = [f"p{place} AS {column}" for place, column in enumerate(self.kinds)]
        width = max(len(evaluation.block.items) for evaluation, _ in self.asked)
        tagged = self.asked[0][0].tagged
        source = f"SELECT w, f, {', '.join(columns)} FROM {name}"
        asked = [
            (replace(evaluation, block=_named(evaluation.block, places)), types)
            for (evaluation, types), places in zip(self.asked, self.places.values(), strict=True)
        ]
        return render_combined(dict(enumerate(asked)), source, width, tagged=tagged, place="w")

    @property
    def types(self) -> str:
        """Spark's schema of the rows that go in, as JSON."""
        schema = StructType().add("w", "integer", False).add("f", "integer", False)
        for place, kind in enumerate(self.kinds.values()):
            schema.add(f"p{place}", spark_type(kind), True)
        return str(schema.json())


def _named(block: JoinBlock, places: Mapping[str, str]) -> JoinBlock:
    """The block with other names for its columns."""

    def named(one: CarriedColumn) -> CarriedColumn:
        return replace(
            one,
            text=places.get(one.text, one.text) if one.text is not None else None,
            value=places.get(one.value, one.value) if one.value is not None else None,
        )

    occurrences = tuple(replace(one, carried=tuple(map(named, one.carried))) for one in block.occurrences)
    return replace(block, occurrences=occurrences)


class Prepared:
    """The templates of one Spark; made again when Spark has been started again."""

    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self.say = say
        self.most_rows = MOST_ROWS
        self.answered = 0
        """Questions that cost no job."""
        self._spark: _Spark | None = None
        self._templates: list[_Template] = []
        self._places = _Places()
        self._unfit: set[_Key] = set()
        self._units = 0
        self._off: SparkSession | None = None
        """The Spark that cannot keep plans; another one is tried again."""
        self._planning = threading.Lock()

    def answers(self, session: SparkSession, questions: Mapping[int, Question]) -> dict[int, pa.Table]:
        """Rows (w, c1 …, n, maybe t) of the questions that can be answered without a job; the others are left out."""
        rows = sum(question.table.num_rows for question in questions.values())
        size = sum(question.table.nbytes for question in questions.values())
        if self._off is session or not questions or rows > self.most_rows or size > MOST_BYTES:
            return {}
        try:
            found = self._answers(session, questions)
        except PySparkException as error:
            if isinstance(error, UnknownException):
                self._give_up(session, error)
            return {}  # one of the rows, as it seems: the ordinary way says which and why
        except Py4JNetworkError:
            return {}  # Java is ending: the ordinary way finds out
        except (Py4JError, TypeError) as error:
            self._give_up(session, error)
            return {}
        self.answered += len(found)
        return found

    def _give_up(self, session: SparkSession, error: Exception) -> None:
        self._off = session
        reason = str(error).strip().splitlines()[0]
        self.say(f"small changes are evaluated by ordinary Spark jobs: this Spark cannot keep plans ({reason})")

    def _answers(self, session: SparkSession, questions: Mapping[int, Question]) -> dict[int, pa.Table]:
        with self._planning:
            if self._spark is None or self._spark.session is not session:
                self._spark, self._templates, self._unfit = _Spark(session), [], set()
            spark = self._spark
            self._units += 1
            keys = {place: _key(question) for place, question in questions.items()}
            self._prepare(spark, {keys[place]: question for place, question in questions.items()})
            work: list[tuple[_Plan, pa.Table, list[int]]] = []
            for template in self._templates:
                mine = [place for place, key in keys.items() if key in template.numbers]
                if mine and template.plan is not None:
                    template.used |= {keys[place]: self._units for place in mine}
                    rows = template.rows({place: (keys[place], questions[place].table) for place in mine})
                    work.append((template.plan, rows, mine))
        found: dict[int, pa.Table] = {}
        for plan, rows, mine in work:
            answer = spark.evaluate(plan, rows)
            found |= {place: answer.filter(pc.equal(answer.column("w"), place)) for place in mine}
        return found

    def _prepare(self, spark: _Spark, questions: Mapping[_Key, Question]) -> None:
        """Templates for those that have none."""
        known = self._unfit.union(*(template.numbers for template in self._templates))
        new = {key: question for key, question in questions.items() if key not in known}
        while new:
            first = next(iter(new))
            old = next((template for template in self._templates if template.takes(first)), None)
            template = self._grown(old)
            taken = {}
            for key, question in list(new.items()):
                if template.takes(key):
                    template.add(key, question.evaluation, question.types, self._places.of(key), self._units)
                    taken[key] = new.pop(key)
            if self._planned(spark, template, taken):
                self._templates = [template, *(one for one in self._templates if one is not old)][:TEMPLATES]
            elif len(taken) == 1:
                self._unfit |= set(taken)
            else:  # one of them is not a chain: each is tried alone
                for key, question in taken.items():
                    alone = _Template()
                    alone.add(key, question.evaluation, question.types, self._places.of(key), self._units)
                    if self._planned(spark, alone, {key: question}):
                        self._templates = [alone, *self._templates][:TEMPLATES]
                    else:
                        self._unfit.add(key)

    def _grown(self, old: _Template | None) -> _Template:
        """A template with what this one has been asked for of late."""
        template = _Template()
        for key, asked in zip(old.numbers, old.asked, strict=True) if old is not None else ():
            if old is not None and self._units - old.used[key] <= FORGOTTEN:
                template.add(key, *asked, old.places[key], old.used[key])
        return template

    @staticmethod
    def _planned(spark: _Spark, template: _Template, questions: Mapping[_Key, Question]) -> bool:
        rows = template.rows({place: (key, one.table) for place, (key, one) in enumerate(questions.items())})
        template.plan = spark.plan(template, rows)
        return template.plan is not None


def _key(question: Question) -> _Key:
    return _Key(question.text(), tuple(question.kinds.items()), question.evaluation.tagged)


@dataclass(frozen=True)
class _Plan:
    """Spark's plan of a template: `operators` from the relation upwards."""

    leaf: Any
    operators: tuple[Any, ...]
    types: str
    row: Any
    """Spark's schema of the rows that come out, and Arrow's."""
    answer: pa.Schema


class _Spark:
    """What is needed of Spark's internals, looked up once."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        java: Any = session.sparkContext._jvm
        self._java_session = session._jsparkSession
        self._sessions = java.SparkSession
        self._channels = java.java.nio.channels.Channels
        self._stream = java.java.io.ByteArrayInputStream
        self._arrow = _scala_object(java.org.apache.spark.sql.execution.arrow, "ArrowConverters")
        self._rule = _scala_object(java.org.apache.spark.sql.catalyst.optimizer, RULE)
        self._python = java.org.apache.spark.api.python.PythonRDD
        self._nothing = _scala_object(java.scala.collection.immutable, "Nil")
        # A job for a few rows evaluates what was written, before anything is simplified: so the same rows fail.
        batches = _each(self._java_session.sessionState().optimizer().defaultBatches())
        rules = [rule.ruleName() for batch in batches for rule in _each(batch.rules())]
        session.conf.set("spark.sql.optimizer.excludedRules", ",".join(rules))

    def plan(self, template: _Template, rows: pa.Table) -> _Plan | None:
        """The plan of the template's query over these rows; None if it is no chain of Project and Filter over them."""
        types = template.types
        frame = self._frame(rows, types)
        frame.createOrReplaceTempView(VIEW)
        try:
            optimized = self.session.sql(template.query(VIEW))._jdf.queryExecution().optimizedPlan()
        finally:
            self.session.catalog.dropTempView(VIEW)
        operators = []
        leaf = optimized
        while leaf.children().size() == 1:
            operators.append(leaf)
            leaf = leaf.children().head()
        relation = frame.queryExecution().analyzed()
        # A condition that is never true leaves a relation without rows, which is not this one.
        same = _is_relation(leaf) and leaf.output().equals(relation.output()) and leaf.data().equals(relation.data())
        if not same:
            return None
        row = optimized.schema()
        answer = self._arrow.createEmptyArrowBatch(row, "UTC", True, False)
        plan = _Plan(leaf, tuple(reversed(operators)), types, row, pa.ipc.open_stream(answer).schema)
        return plan if self._evaluated(plan, relation) is not None else None

    def evaluate(self, plan: _Plan, rows: pa.Table) -> pa.Table:
        """What the query gives over these rows."""
        relation = self._frame(rows, plan.types).queryExecution().analyzed()
        done = self._evaluated(plan, relation)
        if done is None:
            raise TypeError("an operator that was evaluated once is not evaluated again")
        rows, size = done.data(), done.data().size()
        if size <= ROWS_AT_ONCE:
            answers = self._batches(rows, plan, ROWS_AT_ONCE)
            streams = [answers.next() for _ in range(int(answers.hasNext()))]
        else:
            port, secret, *_ = self._python.serveIterator(self._batches(rows, plan, 0), "rows of a kept plan")
            with _load_from_socket((port, secret), NoOpSerializer()) as served:
                streams = list(served)
        tables = [pa.ipc.open_stream(stream).read_all() for stream in streams]
        if sum(table.num_rows for table in tables) != size:  # who serves them ends without a word where it fails
            raise TypeError(f"{size} rows were to come")
        return pa.concat_tables(tables).combine_chunks() if tables else plan.answer.empty_table()

    def _batches(self, rows: Any, plan: _Plan, most: int) -> Any:
        return self._arrow.toBatchWithSchemaIterator(rows.iterator(), plan.row, most, 0, "UTC", True, False)

    def _frame(self, rows: pa.Table, types: str) -> Any:
        self._sessions.setActiveSession(self._java_session)  # whose settings the expressions are evaluated with
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        channel = self._channels.newChannel(self._stream(sink.getvalue().to_pybytes()))
        return self._arrow.toDataFrame(self._arrow.getBatchesFromStream(channel), types, self._java_session)

    def _evaluated(self, plan: _Plan, relation: Any) -> Any:
        """The relation with the rows that are left, or None if an operator cannot be evaluated without a job."""
        done = plan.leaf.copy(plan.leaf.output(), relation.data(), False, plan.leaf.stream())
        for operator in plan.operators:
            done = self._rule.apply(operator.withNewChildren(self._nothing.prepended(done)))
            if not _is_relation(done):
                return None
        return done


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _is_relation(plan: Any) -> bool:
    return bool(plan.nodeName() == "LocalRelation")
