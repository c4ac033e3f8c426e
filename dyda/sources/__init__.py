"""Sources: autonomous PostgreSQL databases, captured and read (paper 000, Section 5; rules C, P and R).

    adapter         the interface: all that maintenance and commands know of a source
    fingerprints    what a relation's fingerprint says besides being equal to another
    postgres        a PostgreSQL source: describe, attach, open a snapshot, acknowledge, detach
    settings        a source's settings, and who reads its log
    connection      reused sessions with pinned settings, short transactions, errors in DyDa's own words
    catalog         relations, the tables they consist of, and fingerprints of both
    capture/        triggers write row images and schema changes into a log inside the writers' own transactions
    log/            that log as update messages in commit order
    reading/        one state of log and tables together
    wal/            capture from the write-ahead log
    stalled_server  connections that give up on a server that no longer responds

Always true here: values travel as PostgreSQL's own text under pinned settings; what DyDa puts into a source waits no
longer than 40 ms for a lock; what could not be captured is counted as a gap, and a statement fails only if even that is
impossible.
"""

from dyda.sources.adapter import Finding, Snapshot, Source, SourceIdentity
from dyda.sources.capture.check import grants
from dyda.sources.postgres import PostgresSource
from dyda.sources.settings import SourceSettings

__all__ = ["Finding", "PostgresSource", "Snapshot", "Source", "SourceIdentity", "SourceSettings", "grants"]
