-- as: worker
-- The embedding spaces tenants are served in, and how many tenants each.
SELECT fingerprint, space, count(*) AS tenants
FROM generation
WHERE state = 'live'
GROUP BY fingerprint, space
ORDER BY count(*) DESC;
