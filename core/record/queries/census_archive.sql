-- as: worker
-- Objects of archived memories, and their bytes as far as they are known.
SELECT count(*) AS objects, coalesce(sum(bytes), 0)::bigint AS bytes
FROM archive_object
WHERE swept_at IS NULL;
