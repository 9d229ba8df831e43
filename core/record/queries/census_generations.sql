-- as: worker
-- Generations by state, and how many of those that are being built did not pass the gate when it last judged them.
SELECT state, count(*) AS generations, count(*) FILTER (WHERE verdict ->> 'passed' = 'false') AS failed
FROM generation
GROUP BY state
ORDER BY state;
