-- as: app
SELECT graph_disown(%(tenant)s, %(key)s) AS stated;
