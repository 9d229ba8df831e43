-- as: app
-- Items of a job, one a text; arrays in step, a row a memory. A text that is awaited already, in whichever job,
-- gets no second item: its memories wait with the others. In the order of hashes, so that two who add do not wait
-- for each other in a circle.
INSERT INTO batch_item AS i (tenant, id, job, fingerprint, text_hash, tokens, memory_ids, versions)
SELECT %(tenant)s, g.id, %(job)s, %(fingerprint)s, g.text_hash, min(g.tokens),
       array_agg(g.memory_id ORDER BY g.memory_id), array_agg(g.version ORDER BY g.memory_id)
FROM unnest(%(items)s::uuid[], %(hashes)s::text[], %(tokens)s::integer[], %(ids)s::text[], %(versions)s::bigint[])
     AS g (id, text_hash, tokens, memory_id, version)
GROUP BY g.text_hash, g.id
ORDER BY g.text_hash
ON CONFLICT (tenant, fingerprint, text_hash) WHERE state = 'open' DO UPDATE
SET memory_ids = i.memory_ids || excluded.memory_ids, versions = i.versions || excluded.versions
RETURNING i.id, i.text_hash;
