-- as: app
-- Facts that policies judge by, in the order of ids behind `after`: of memories that rest, or that are cold and
-- may have been read since. No content is read.
SELECT id, version, type, importance, tier, keep, created_at, rests_since, expires_at, moment
FROM (
    SELECT id, version, type, importance, tier, keep, created_at, expires_at,
           greatest(updated_at, accessed_at) AS rests_since, now() AS moment
    FROM memory
    WHERE tenant = %(tenant)s AND id > %(after)s AND deleted_at IS NULL AND NOT keep AND tier <> 'archive'
      AND (tier = 'cold' OR updated_at <= now() - %(least)s::interval)
) AS found
WHERE tier = 'cold' OR rests_since <= now() - %(least)s::interval
ORDER BY id
LIMIT %(limit)s;
