-- as: app
SELECT graph_put(%(tenant)s, %(keys)s::text[], %(names)s::text[], %(types)s::text[], %(firm)s::boolean[],
                 %(by_hand)s::boolean, %(froms)s::integer[], %(kinds)s::text[], %(tos)s::integer[], %(weights)s::float8[],
                 %(supporters)s::text[], %(with_write)s::boolean, %(replaced)s::text[], %(restated)s::text[]);
