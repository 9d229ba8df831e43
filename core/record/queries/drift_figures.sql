-- as: app
-- One tenant at one moment: how many points an index should hold, their digest, and per generation what waits.
SELECT
    (SELECT coalesce(sum(points), 0)::bigint FROM (
        SELECT points FROM point_digest WHERE tenant = %(tenant)s
        UNION ALL
        SELECT points FROM point_digest_delta WHERE tenant = %(tenant)s) AS p) AS records,
    (SELECT coalesce(sum(digest), 0) FROM (
        SELECT digest FROM point_digest WHERE tenant = %(tenant)s
        UNION ALL
        SELECT digest FROM point_digest_delta WHERE tenant = %(tenant)s) AS d) AS digest,
    (SELECT count(*) FROM outbox WHERE tenant = %(tenant)s AND generation = %(generation)s) AS waiting,
    (SELECT g.state FROM generation g WHERE g.tenant = %(tenant)s AND g.number = %(generation)s) AS state,
    EXISTS (SELECT FROM recovery r WHERE r.tenant = %(tenant)s AND r.generation = %(generation)s
              AND r.running_until > now()) AS recovering;
