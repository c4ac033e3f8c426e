"""The command line: a thin skin over `dyda.commands`.

Always true here: standard output is the answer and nothing else, standard error is the log; colour and moving
bars appear only on terminals; an error is one message that says what to do, never a traceback.
"""

from dyda.cli.main import main

__all__ = ["main"]
