-- as: app
-- What waits in the queue, by generation; what waits for a dropped one is for nobody.
SELECT o.generation, count(*) AS waiting
FROM orphan o JOIN generation g ON g.tenant = o.tenant AND g.number = o.generation AND g.state <> 'dropped'
WHERE o.tenant = %(tenant)s
GROUP BY o.generation ORDER BY o.generation;
