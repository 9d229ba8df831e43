-- as: app
-- A page of what an erasure of one id comes to, in the order of ids behind `after`: memories, deleted ones too, and those of
-- which an older version did.
SELECT %(value)s::text AS id
WHERE %(value)s::text > %(after)s
  AND (EXISTS (SELECT FROM memory WHERE tenant = %(tenant)s AND id = %(value)s::text)
       OR EXISTS (SELECT FROM memory_version WHERE tenant = %(tenant)s AND id = %(value)s::text))
LIMIT %(limit)s;
