-- as: app
-- Keep the vectors that came (items and vectors in step) of items that still await one.
UPDATE batch_item i
SET state = 'kept', vector = g.vector
FROM unnest(%(items)s::uuid[], %(vectors)s::bytea[]) AS g (id, vector)
WHERE i.tenant = %(tenant)s AND i.id = g.id AND i.job = %(job)s AND i.state IN ('open', 'loose')
RETURNING i.id, i.tokens;
