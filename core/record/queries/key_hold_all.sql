-- as: app
-- Waits for whoever is keeping something sealed, and lets nobody else from here on.
SELECT id FROM data_key WHERE tenant = %(tenant)s ORDER BY id FOR UPDATE;
