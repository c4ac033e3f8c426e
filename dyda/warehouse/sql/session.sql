-- session: what every writing session of the warehouse pins.
-- Texts: the output functions must print alike whatever the role's defaults are (extents are keyed by them).
SET extra_float_digits = 1;
SET IntervalStyle = postgres;
SET DateStyle = 'ISO, YMD';
SET TimeZone = 'UTC';
SET bytea_output = hex;
SET lc_monetary = 'C';
SET xmloption = content;
SET search_path = pg_catalog, pg_temp;
SET row_security = off;
SET client_min_messages = warning;
SET standard_conforming_strings = on;
-- Compiling takes longer than what a unit asks: with plans steered away from whole tables, costs look enormous.
SET jit = off;
-- A worker may be idle for long, and an installation may be long: time limits meant for applications do not apply.
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SELECT set_config(name, '0', false)
FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_session_timeout',
               'idle_in_transaction_session_timeout');
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
