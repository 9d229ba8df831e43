-- as: app
-- Of these texts, those whose vector came by a batch job and is kept.
SELECT DISTINCT text_hash
FROM batch_item
WHERE tenant = %(tenant)s AND fingerprint = %(fingerprint)s AND text_hash = ANY (%(hashes)s::text[])
  AND vector IS NOT NULL;
