-- no_wal: the opposite of sql/wal.sql, for a source whose capture goes over to triggers. What was not read of the stream is
-- lost: a gap.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_publication WHERE pubname = 'dyda_capture') THEN
        DROP PUBLICATION dyda_capture;
        DROP TRIGGER IF EXISTS dyda_announce ON dyda.log;
        PERFORM dyda.forward_gap();
    END IF;
END
$do$;
