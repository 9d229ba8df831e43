-- as: app
SELECT graph_withdraw(%(tenant)s, %(froms)s::text[], %(kinds)s::text[], %(tos)s::text[], %(supporter)s) AS withdrawn;
