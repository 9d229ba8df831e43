-- Jobs of a provider's batch API, and what is in them. Content is never kept here: a text is known by its keyed
-- hash, and at the provider by the id of its item, which says nothing.
CREATE TABLE batch_job (
    tenant text NOT NULL,
    id uuid NOT NULL,
    generation integer NOT NULL,
    fingerprint text NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    state text NOT NULL DEFAULT 'preparing' CHECK (state IN
        ('preparing', 'submitted', 'running', 'cancelling', 'ingested', 'expired', 'failed', 'cancelled')),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When its entries go the normal way.
    deadline timestamptz NOT NULL,
    inputs integer NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    provider_job text,
    submitted_at timestamptz,
    polled_at timestamptz,
    done integer NOT NULL DEFAULT 0,
    ended_at timestamptz,
    kept integer NOT NULL DEFAULT 0,
    refused integer NOT NULL DEFAULT 0,
    again integer NOT NULL DEFAULT 0,
    note text,
    lease_owner uuid,
    lease_until timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX batch_job_open ON batch_job (tenant, created_at) WHERE ended_at IS NULL;

-- One item a text. open: its vector is awaited and its entries are held. loose: awaited, but nobody waits any more.
-- kept: its vector is here, for whoever brings the entries. refused, again: it has none.
CREATE TABLE batch_item (
    tenant text NOT NULL,
    id uuid NOT NULL,
    job uuid NOT NULL,
    fingerprint text NOT NULL,
    text_hash text NOT NULL,
    tokens integer NOT NULL,
    memory_ids text[] NOT NULL,
    versions bigint[] NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'loose', 'kept', 'refused', 'again')),
    vector bytea,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, job) REFERENCES batch_job ON DELETE CASCADE
);
ALTER TABLE batch_item ALTER COLUMN vector SET STORAGE EXTERNAL;  -- floats do not compress
-- No text is awaited twice in one space, whoever submits.
CREATE UNIQUE INDEX batch_item_open ON batch_item (tenant, fingerprint, text_hash) WHERE state = 'open';
CREATE INDEX batch_item_kept ON batch_item (tenant, fingerprint, text_hash) WHERE vector IS NOT NULL;
CREATE INDEX batch_item_by_job ON batch_item (tenant, job);

ALTER TABLE batch_job ENABLE ROW LEVEL SECURITY;
ALTER TABLE batch_job FORCE ROW LEVEL SECURITY;
ALTER TABLE batch_item ENABLE ROW LEVEL SECURITY;
ALTER TABLE batch_item FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON batch_job TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY own_tenant ON batch_item TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON batch_job FOR SELECT TO memory_worker USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON batch_job, batch_item TO memory_app;
GRANT SELECT ON batch_job TO memory_worker;

-- The item an entry is held for (ready_at is then its deadline), at which seq, how often this state of the memory
-- was in a job, and until when it may be in one.
ALTER TABLE outbox
    ADD COLUMN batch_item uuid,
    ADD COLUMN batch_seq bigint,
    ADD COLUMN batch_tries smallint NOT NULL DEFAULT 0,
    ADD COLUMN batch_until timestamptz;
CREATE INDEX outbox_by_batch_item ON outbox (tenant, batch_item) WHERE batch_item IS NOT NULL;

-- Of the tokens of a day, those that went by batch jobs, which have a price of their own.
ALTER TABLE embedding_use ADD COLUMN batch_tokens bigint NOT NULL DEFAULT 0;
