-- The record. A tombstone (deleted_at) keeps its row: versions go on counting when the id is written again.
CREATE TABLE memory (
    tenant text NOT NULL CHECK (tenant <> ''),
    id text NOT NULL CHECK (id <> ''),
    embedding_id uuid NOT NULL,
    version bigint NOT NULL CHECK (version > 0 AND version < 9007199254740992),
    subject text,
    scope text NOT NULL,
    project text,
    agent text,
    session text,
    position bigint,
    speaker text,
    role text,
    type text NOT NULL,
    title text,
    content text NOT NULL,
    tags text[] NOT NULL,
    labels jsonb NOT NULL,
    metadata jsonb NOT NULL,
    importance double precision NOT NULL CHECK (importance BETWEEN 0 AND 1),
    tier text NOT NULL DEFAULT 'warm' CHECK (tier IN ('warm', 'cold', 'archive')),
    source jsonb,
    -- Of its own, because under row-level security no index is used through ->>, which is not leakproof.
    source_path text GENERATED ALWAYS AS (source ->> 'path') STORED,
    expires_at timestamptz,
    accessed_at timestamptz,
    archive_uri text,
    archive_sha256 text,
    deleted_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);

-- What a record was before each change, whole.
CREATE TABLE memory_version (
    tenant text NOT NULL,
    id text NOT NULL,
    version bigint NOT NULL,
    record jsonb NOT NULL,
    replaced_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id, version)
) PARTITION BY HASH (tenant);

DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format('CREATE TABLE memory_%s PARTITION OF memory FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
        EXECUTE format('CREATE TABLE memory_version_%s PARTITION OF memory_version FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    END LOOP;
END
$$;

CREATE INDEX memory_by_place ON memory (tenant, scope, project, created_at DESC, id DESC);
CREATE INDEX memory_by_age ON memory (tenant, created_at DESC, id DESC);
CREATE INDEX memory_by_session ON memory (tenant, session, created_at DESC, id DESC) WHERE session IS NOT NULL;
CREATE INDEX memory_by_point ON memory (tenant, embedding_id);
CREATE INDEX memory_by_source ON memory (tenant, source_path) WHERE source_path IS NOT NULL;

ALTER TABLE memory ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_version ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_version FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON memory TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY own_tenant ON memory_version TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON memory FOR SELECT TO memory_worker USING (true);

GRANT SELECT, INSERT, UPDATE, DELETE ON memory, memory_version TO memory_app;
GRANT SELECT (tenant, id, embedding_id, version, tier, expires_at, accessed_at, deleted_at, created_at, updated_at)
    ON memory TO memory_worker;
