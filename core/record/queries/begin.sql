-- as: app
SELECT set_config('role', %(role)s, true),
       set_config('memory.tenant', %(tenant)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       set_config('lock_timeout', %(lock_timeout)s, true);
