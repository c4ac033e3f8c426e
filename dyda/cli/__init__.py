"""The command line: a thin skin over `dyda.commands`.

Always true here: standard output is the answer and nothing else, standard error is the log; colour and moving
bars appear only on terminals; an error is one message that says what to do, never a traceback. The commands are
imported where they are called: Spark, Arrow and SQLAlchemy take a second that `dyda --help` need not wait for.
"""

from dyda.cli.main import main

__all__ = ["main"]
