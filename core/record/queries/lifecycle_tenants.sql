-- as: worker
SELECT DISTINCT tenant FROM generation WHERE %(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[])
ORDER BY tenant;
