-- A path may be longer than an entry of an index can be.
DROP INDEX memory_by_source;
ALTER TABLE memory ADD COLUMN source_key text GENERATED ALWAYS AS (md5(source ->> 'path')) STORED;
CREATE INDEX memory_by_source ON memory (tenant, source_key) WHERE source_key IS NOT NULL;

-- Suspects (see outbox_claim.sql) are looked for at every claim, and there are hardly ever any.
CREATE INDEX outbox_suspects ON outbox (tenant, generation) WHERE set_aside_at IS NULL AND attempts >= 2;
