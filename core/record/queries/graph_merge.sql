-- as: app
SELECT graph_merge(%(tenant)s, %(keep)s, %(keys)s::text[], %(names)s::text[]) AS merged;
