"""DyDa keeps materialized views over autonomous databases right while rows and schemas change under them.

`dyda.model` says what things are; `dyda.sources`, `dyda.warehouse` and `dyda.engine` talk to PostgreSQL and
Spark; `dyda.maintenance` walks one unit through the product; `dyda.commands` is the API and `dyda.cli` its skin.
The algorithms live beside this package: `scheduler`, `vs`, `va`, `vm`.
"""

__version__ = "0.1.0"
