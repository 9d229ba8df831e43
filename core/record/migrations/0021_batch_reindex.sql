-- A reindex may go by batch jobs: what it feeds is for jobs alone, until batch_until (ready_at then says the same).
ALTER TABLE outbox ADD COLUMN batch_fed boolean NOT NULL DEFAULT false;
-- What was fed for jobs and is in none.
CREATE INDEX outbox_by_fed ON outbox (tenant, generation, memory_id) WHERE batch_fed AND batch_item IS NULL;
