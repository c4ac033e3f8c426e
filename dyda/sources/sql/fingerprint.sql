-- fingerprint: everything that gives a table's rows their meaning, per table (rule R2). Parameter: relids (oid array). Reads
-- pg_catalog only, as plain tables: no function here opens or locks a user's table. A relation's fingerprint is made of those
-- of its tables (catalog.fingerprint, dyda.lasting). The same text runs inside the sources' own transactions, as
-- dyda.fingerprints: what it prints there at the end of a command must be what a later transaction finds. lasting: must stay
-- the same between units. passing: must stay the same while one unit reads: filenodes and versions of catalog rows too (VACUUM
-- FULL moves rows, a GRANT does not; neither makes a view wrong later). writers: the transactions that wrote what `lasting` is
-- made of, except types: a new column's type may be older.
WITH RECURSIVE used(relid, typid) AS (
    SELECT a.attrelid, a.atttypid FROM pg_attribute a
    WHERE a.attrelid = ANY (%(relids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
    UNION
    SELECT u.relid, inner_type.oid
    FROM used u JOIN pg_type t ON t.oid = u.typid, LATERAL (
        SELECT t.typbasetype UNION ALL SELECT t.typelem
        UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
        UNION ALL SELECT a.atttypid FROM pg_attribute a
                  WHERE t.typrelid <> 0 AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS inner_type (oid)
    WHERE inner_type.oid >= 16384
), parts(relid, lasting, passing, written) AS (
    SELECT c.oid, format('class %%s %%s %%s %%s %%s %%s %%s %%s', c.oid, c.relname, c.relnamespace, c.relkind,
                         c.relpersistence, c.relispartition, c.relrowsecurity, c.relforcerowsecurity),
           format('class %%s %%s', c.xmin, c.relfilenode), NULL
    FROM pg_class c WHERE c.oid = ANY (%(relids)s::oid[])
    UNION ALL
    SELECT a.attrelid,
           format('attribute %%s %%s %%s %%s %%s %%s %%s %%s %%s %%s', a.attnum, a.attname, a.atttypid, a.atttypmod,
                  a.attnotnull, a.attisdropped, a.attgenerated, a.attinhcount, a.attcollation, a.xmin), '', a.xmin
    FROM pg_attribute a WHERE a.attrelid = ANY (%(relids)s::oid[]) AND a.attnum > 0
    UNION ALL
    SELECT d.adrelid, format('default %%s %%s %%s', d.adnum, d.xmin, md5(d.adbin::text)), '', d.xmin
    FROM pg_attrdef d WHERE d.adrelid = ANY (%(relids)s::oid[])
    UNION ALL
    SELECT k.conrelid, format('key %%s %%s %%s %%s', k.oid, k.contype, k.conkey, k.condeferrable), '', k.xmin
    FROM pg_constraint k WHERE k.conrelid = ANY (%(relids)s::oid[]) AND k.contype IN ('p', 'u')
    UNION ALL
    SELECT i.inhrelid, format('inherits %%s %%s %%s %%s', i.inhparent, i.inhseqno, i.inhdetachpending, i.xmin), '', i.xmin
    FROM pg_inherits i WHERE i.inhrelid = ANY (%(relids)s::oid[])
    UNION ALL
    SELECT t.tgrelid, format('trigger %%s %%s %%s %%s %%s', t.tgname, t.tgenabled, t.tgfoid, t.tgtype, t.xmin), '', t.xmin
    FROM pg_trigger t WHERE t.tgrelid = ANY (%(relids)s::oid[]) AND t.tgname LIKE 'dyda\_%%'
    UNION ALL
    SELECT r.prrelid, format('published %%s %%s %%s %%s', r.oid, r.xmin, p.oid, p.xmin), '', r.xmin
    FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
    WHERE r.prrelid = ANY (%(relids)s::oid[]) AND p.pubname = 'dyda_capture'
    UNION ALL
    SELECT s.srrelid, format('subscription %%s', s.srsubid), '', NULL
    FROM pg_subscription_rel s WHERE s.srrelid = ANY (%(relids)s::oid[])
    UNION ALL
    SELECT u.relid, format('type %%s %%s %%s %%s', t.oid, t.typtype, t.typname, t.xmin), '', NULL
    FROM used u JOIN pg_type t ON t.oid = u.typid
    UNION ALL
    SELECT u.relid, format('label %%s %%s %%s %%s', e.enumtypid, e.enumsortorder, e.enumlabel, e.xmin), '', NULL
    FROM used u JOIN pg_enum e ON e.enumtypid = u.typid
    UNION ALL
    SELECT u.relid, format('field %%s %%s %%s %%s %%s %%s', a.attrelid, a.attnum, a.attname, a.atttypid, a.attisdropped,
                           a.xmin), '', NULL
    FROM used u JOIN pg_type t ON t.oid = u.typid JOIN pg_attribute a ON a.attrelid = t.typrelid
    WHERE t.typrelid <> 0 AND a.attnum > 0
)
SELECT p.relid,
       md5(string_agg(p.lasting, E'\n' ORDER BY p.lasting COLLATE "C")),
       md5(string_agg(p.passing, E'\n' ORDER BY p.passing COLLATE "C")),
       (SELECT CASE WHEN NOT w.by_wal THEN count(*) = 4 ELSE bool_or(t.tgname = 'dyda_truncate') AND EXISTS (
                   SELECT FROM pg_class c
                   WHERE c.oid = p.relid AND (c.relkind = 'p' OR c.relreplident = 'f' AND EXISTS (
                       SELECT FROM pg_publication b JOIN pg_publication_rel r ON r.prpubid = b.oid
                       WHERE r.prrelid = c.oid AND b.pubname = 'dyda_capture'
                         AND b.pubinsert AND b.pubupdate AND b.pubdelete AND NOT b.pubviaroot
                         AND to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL
                         AND to_jsonb(b) ->> 'pubgencols' IS DISTINCT FROM 'n'))) END IS TRUE
        FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_namespace n ON n.oid = f.pronamespace
        WHERE t.tgrelid = p.relid AND n.nspname = 'dyda' AND f.proname = 'capture' AND t.tgenabled = 'A'
          AND t.tgname IN ('dyda_insert', 'dyda_update', 'dyda_delete', 'dyda_truncate')),
       array_agg(DISTINCT p.written::text::bigint) FILTER (WHERE p.written IS NOT NULL)
FROM parts p, (SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = 'dyda_capture') AS by_wal) AS w
GROUP BY p.relid, w.by_wal
