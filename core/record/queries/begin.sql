-- as: app
-- UTC, whatever the server or the environment says: times leave the record in it, and the far ends of the
-- calendar fit no other zone.
SELECT set_config('TimeZone', 'UTC', true),
       set_config('role', %(role)s, true),
       set_config('memory.tenant', %(tenant)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       set_config('lock_timeout', %(lock_timeout)s, true);
