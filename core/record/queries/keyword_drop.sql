-- as: app
SELECT keyword_drop(%(tenant)s, %(points)s::uuid[]);
