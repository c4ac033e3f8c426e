-- session: what every writing session of the warehouse sets once it has begun (see handshake.py for the rest).
-- The server ends our session within seconds, and with it our locks, when our machine is gone; also in the middle of a
-- statement, where it can look (not every system lets it).
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = 15000;
DO $do$
BEGIN
    SET client_connection_check_interval = '5s';
EXCEPTION WHEN invalid_parameter_value THEN
    NULL;
END
$do$;
-- Installed must mean durable before a source is acknowledged (P2). Stronger settings than "on" stay.
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local');
