-- as: worker
-- What may be dropped now: its time has come, or a drop of it was begun.
SELECT tenant, number, index_group, space, state
FROM generation
WHERE state IN ('retiring', 'aborted') AND (retire_at <= now() OR dropping_at IS NOT NULL)
ORDER BY tenant, number;
