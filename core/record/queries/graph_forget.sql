-- as: app
SELECT graph_forget(%(tenant)s, %(ids)s::text[]) AS forgotten;
