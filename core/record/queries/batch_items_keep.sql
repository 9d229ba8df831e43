-- as: app
-- Keep the vectors that came (items and vectors in step) of items that still await one.
UPDATE batch_item i
SET state = 'kept', vector = (%(vectors)s::bytea[])[array_position(%(items)s::uuid[], i.id)]
WHERE i.tenant = %(tenant)s AND i.id = ANY (%(items)s::uuid[]) AND i.job = %(job)s AND i.state IN ('open', 'loose')
RETURNING i.id, i.tokens;
