-- as: app
SELECT keyword_put(%(tenant)s, %(points)s::uuid[], %(sizes)s::integer[], %(edition)s::smallint, %(owners)s::integer[],
                   %(terms)s::text[], %(counts)s::smallint[]);
