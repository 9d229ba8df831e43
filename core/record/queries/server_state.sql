-- as: owner
-- What the connecting role finds: the server, its clock, and what it may do.
SELECT current_setting('server_version_num')::integer AS version_number,
       current_setting('server_version') AS version,
       current_setting('server_encoding') AS encoding,
       clock_timestamp() AS moment,
       current_user AS role,
       (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS passes_policies,
       has_schema_privilege(current_user, 'public', 'CREATE') AS may_create,
       pg_is_in_recovery() AS is_replica,
       current_setting('max_connections')::integer AS max_connections,
       (SELECT count(*) FROM pg_stat_activity) AS connections;
