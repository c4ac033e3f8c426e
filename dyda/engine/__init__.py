"""Spark behind three verbs: `analyse` a view, `evaluate` a unit in one job at most, `build` an extent uncollected.

Always true here: values enter and leave as canonical text in Arrow tables, a value that Spark cannot hold exactly
raises instead of being rounded, and no row becomes a Python object.

    engine = Engine(settings)                              # SparkSettings: master, timezone, numeric, config
    outputs = engine.analyse(view)                         # list[OutputType(name, spark_type, warehouse_type, …)]
    block = engine.block(view)                             # vm.flatten with this engine's numeric setting
    outputs = engine.types(block, …)                       # the same of blocks; of several, of UNION ALL of them
    deltas = engine.evaluate([delta_evaluation(block, worlds, scanner)], reader)   # [c1 … cn text, n bigint]
    rows = engine.build([build_evaluation(block, rows, pending)], sink, reader, progress)  # rows written
    engine.jobs                                            # Spark jobs so far
    engine.stop()

`scanner(occurrence)` gives picklable partitions, `reader(partition)` their texts as pa.Table, `sink(batches)` stores
record batches and returns how many rows. The last two run inside Spark tasks, on any machine.

    engine         analyse, evaluate, build
    session        the Spark sessions: small-job settings for units, others for builds
    java           finding a Java for Spark
    class_archive  Spark's classes, kept by Java from one start to the next
    analysis       Spark's own analysis of a view, over empty frames
    refusals       Spark's refusals in the author's names, with what to write instead
    typed_columns  canonical text to typed Arrow columns: exactly, or not at all
    background     tasks of a low priority, for what is built beside units
    local_join     joins of rows in memory, done by Arrow before Spark is asked
    frames         rows on Spark
    temporary_views  the views that one evaluation reads its rows from
    writing        rows that Spark's tasks hand to a sink
    prepared       a few rows, evaluated by a plan that is kept
    task_errors    errors that travel back from Spark's tasks
"""

from dyda.engine.analysis import OutputType
from dyda.engine.engine import Engine, Rest
from dyda.engine.frames import Reader
from dyda.engine.session import SparkSettingsLike
from dyda.engine.writing import Progress, Sink

__all__ = ["Engine", "OutputType", "Progress", "Reader", "Rest", "Sink", "SparkSettingsLike"]
