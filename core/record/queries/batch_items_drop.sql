-- as: app
-- Take items out of a job again that turned out not to be needed.
DELETE FROM batch_item
WHERE tenant = %(tenant)s AND id = ANY (%(items)s::uuid[])
RETURNING tokens;
