-- as: app
DELETE FROM drift_report WHERE tenant = %(tenant)s AND at < now() - %(keep)s::interval;
