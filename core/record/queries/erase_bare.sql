-- as: app
-- Whether no memory of a tenant is left, deleted ones included.
SELECT NOT EXISTS (SELECT FROM memory WHERE tenant = %(tenant)s) AS bare;
