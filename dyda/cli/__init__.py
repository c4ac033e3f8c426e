"""The command line: a thin layer over `dyda.commands`.

Always true here: standard output is the answer and nothing else, standard error is the log; colours and progress bars
appear only on terminals; an error is one message that says what to do, never a traceback. The commands are imported
where they are called: Spark, Arrow and SQLAlchemy take a second that `dyda --help` need not wait for.

    main       all commands together, exit codes, and errors as one message
    options    `-C DIR` and `--json`, which may stand anywhere
    output     JSON or aligned tables
    project    init, sources, apply
    daemon     daemon, status, stop
    events     events
    notify     notify test
    psql       psql
    views      views, show, history, diff, explain, resync, verify
    pending    the queue, and an operator's decision about one message
    impact     impact
    knowledge  knowledge, knowledge check
    demo       the demo on the screen
"""

from dyda.cli.main import main

__all__ = ["main"]
