-- as: app
-- Content out, stub in, where the memory still is the version that lies in the object, under the key it was read under
-- (new seals change no version), and has not been read since.
-- A tier of null leaves the memory in its tier, and in its indexes: only its whole content moves.
WITH chosen AS MATERIALIZED (
    SELECT m.id, a.key, a.sha256, a.snippet, a.content_sha256
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[], %(keys)s::text[], %(sha256s)s::text[], %(snippets)s::text[],
                %(content_sha256s)s::text[], %(key_ids)s::text[], %(rests)s::timestamptz[])
         AS a (id, version, key, sha256, snippet, content_sha256, key_id, rests)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = a.id AND m.version = a.version
     AND m.key_id IS NOT DISTINCT FROM a.key_id
    WHERE m.deleted_at IS NULL AND m.tier <> 'archive' AND NOT m.keep
      AND (a.rests IS NULL OR greatest(m.updated_at, m.accessed_at) <= a.rests)
    ORDER BY m.id
    FOR UPDATE OF m
)
UPDATE memory m
SET content = chosen.snippet, content_sha256 = chosen.content_sha256, archive_uri = chosen.key,
    archive_sha256 = chosen.sha256, tier = coalesce(%(tier)s, m.tier), version = next_version(m.version)
FROM chosen
WHERE m.tenant = %(tenant)s AND m.id = chosen.id
RETURNING m.id;
