-- as: app
-- Vectors that came by batch jobs, of these texts in one space.
SELECT text_hash, vector
FROM batch_item
WHERE tenant = %(tenant)s AND fingerprint = %(fingerprint)s AND text_hash = ANY (%(hashes)s::text[])
  AND vector IS NOT NULL;
