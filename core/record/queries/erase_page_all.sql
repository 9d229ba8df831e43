-- as: app
-- A page of what an erasure of everything comes to, in the order of ids behind `after`: memories, deleted ones too, and those of
-- which an older version did.
SELECT id FROM (
    (SELECT id FROM memory
     WHERE tenant = %(tenant)s AND id > %(after)s
     ORDER BY id LIMIT %(limit)s)
    UNION
    (SELECT DISTINCT id FROM memory_version
     WHERE tenant = %(tenant)s AND id > %(after)s
     ORDER BY id LIMIT %(limit)s)
) AS both_kinds
ORDER BY id LIMIT %(limit)s;
