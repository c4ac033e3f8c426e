"""Sources: autonomous PostgreSQL databases, captured, held still, asked (paper 000, Section 5; rules C, P and R).

    capture    triggers write row images and schema changes into a log inside the writers' own transactions
    snapshot   one state of log and tables together: what is in the log is exactly what is in the tables
    access     as whom tables are read: what their owners wrote never runs with our rights
    reader     text into Arrow, from the driver or from any Spark executor

Always true here: values travel as PostgreSQL's own text under pinned settings; what DyDa puts into a source waits for
no lock longer than 40 ms; what could not be captured is counted as a gap, and only where that is impossible does a
statement fail.
"""

from dyda.sources.check import grants
from dyda.sources.postgres import PostgresSource
from dyda.sources.reader import ScanPartition
from dyda.sources.settings import Finding, SourceIdentity, SourceSettings
from dyda.sources.snapshot import SourceSnapshot

__all__ = ["Finding", "PostgresSource", "ScanPartition", "SourceIdentity", "SourceSettings", "SourceSnapshot", "grants"]
