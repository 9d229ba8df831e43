-- as: worker
INSERT INTO task_error AS e (task, kind, count)
SELECT n.task, n.kind, n.count
FROM unnest(%(tasks)s::text[], %(kinds)s::text[], %(counts)s::bigint[]) AS n (task, kind, count)
ORDER BY n.task, n.kind
ON CONFLICT (task, kind) DO UPDATE SET count = e.count + excluded.count, last_at = now();
