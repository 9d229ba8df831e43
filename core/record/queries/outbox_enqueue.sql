-- as: app
SELECT enqueue(%(tenant)s, %(ids)s::text[], %(lane)s::smallint);
