-- wal: what capture from the write-ahead log needs besides the slot. Run by attach, after sql/capture.sql. Idempotent.
-- Truncations are told by their trigger: a published one would not say whether anything is left of the relation.
DO $do$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'dyda_capture') THEN
        IF current_setting('server_version_num')::integer >= 180000 THEN
            CREATE PUBLICATION dyda_capture
                WITH (publish = 'insert, update, delete', publish_generated_columns = stored);
        ELSE
            CREATE PUBLICATION dyda_capture WITH (publish = 'insert, update, delete');
        END IF;
        PERFORM dyda.forward_gap();
    ELSIF NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = 'dyda_capture' AND NOT p.puballtables
                      AND p.pubinsert AND p.pubupdate AND p.pubdelete AND NOT p.pubtruncate AND NOT p.pubviaroot
                      AND to_jsonb(p) ->> 'pubgencols' IS DISTINCT FROM 'n') THEN  -- somebody has changed it
        ALTER PUBLICATION dyda_capture SET (publish = 'insert, update, delete', publish_via_partition_root = false);
        IF current_setting('server_version_num')::integer >= 180000 THEN
            ALTER PUBLICATION dyda_capture SET (publish_generated_columns = stored);
        END IF;
        PERFORM dyda.forward_gap();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'dyda.log'::regclass AND tgname = 'dyda_announce'
                   AND tgenabled = 'A') THEN
        CREATE OR REPLACE TRIGGER dyda_announce BEFORE INSERT ON dyda.log FOR EACH ROW
            WHEN (NEW.op IN ('S', 'T')) EXECUTE FUNCTION dyda.announce();
        ALTER TABLE dyda.log ENABLE ALWAYS TRIGGER dyda_announce;
        PERFORM dyda.forward_gap();
    END IF;
END
$do$;
