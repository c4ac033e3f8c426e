"""Sources: autonomous PostgreSQL databases, captured, held still, asked (paper 000, Section 5; rules C, P and R).

    postgres        a PostgreSQL source: describe, attach, open a snapshot, acknowledge, detach
    settings        what is said about a source: how to reach it, which server it is, what a check of it found
    connection      pinned sessions that are reused, short transactions, errors in DyDa's own words
    catalog         relations with their columns, hierarchies, and fingerprints of both
    capture/        triggers write row images and schema changes into a log inside the writers' own transactions
    log/            that log as update messages in commit order
    reading/        one state of log and tables together: what is in the log is exactly what is in the tables
    stalled_server  connections that do not wait for ever

Always true here: values travel as PostgreSQL's own text under pinned settings; what DyDa puts into a source waits for
no lock longer than 40 ms; what could not be captured is counted as a gap, and only where that is impossible does a
statement fail.
"""

from dyda.sources.capture.check import grants
from dyda.sources.postgres import PostgresSource
from dyda.sources.reading.copy import ScanPartition
from dyda.sources.reading.snapshot import SourceSnapshot
from dyda.sources.settings import Finding, SourceIdentity, SourceSettings

__all__ = ["Finding", "PostgresSource", "ScanPartition", "SourceIdentity", "SourceSettings", "SourceSnapshot", "grants"]
