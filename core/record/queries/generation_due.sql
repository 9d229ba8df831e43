-- as: worker
-- What may be dropped now: its time has come.
SELECT tenant, number, index_group, space, state
FROM generation
WHERE state IN ('retiring', 'aborted') AND retire_at <= now()
ORDER BY tenant, number;
