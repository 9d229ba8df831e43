-- keep: nothing moves or reaps this memory. content_sha256: set where `content` is only the beginning of a text
-- that is kept whole in the object archive_uri; the hash is of the whole text. key_id: the data key that content,
-- title and metadata values are sealed under; null: they are in the clear.
ALTER TABLE memory ADD COLUMN keep boolean NOT NULL DEFAULT false;
ALTER TABLE memory ADD COLUMN content_sha256 text;
ALTER TABLE memory ADD COLUMN key_id text;
GRANT SELECT (keep) ON memory TO memory_worker;

CREATE INDEX memory_by_end ON memory (tenant, expires_at) WHERE expires_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX memory_by_deletion ON memory (tenant, deleted_at, id) WHERE deleted_at IS NOT NULL;
CREATE INDEX memory_by_subject ON memory (tenant, subject) WHERE subject IS NOT NULL;
CREATE INDEX memory_version_by_time ON memory_version (tenant, replaced_at);
CREATE INDEX event_by_time ON event (tenant, at);
CREATE INDEX event_by_memory ON event (tenant, memory_id);
GRANT DELETE ON event TO memory_app;

-- Room on each page for a new access time or tier beside the old one: no index holds them, so none is touched.
DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format('ALTER TABLE memory_%s SET (fillfactor = 90)', part);
    END LOOP;
END
$$;

-- Every object of a memory, announced before it is put: what is not listed here was put by nobody we wait for.
-- live_until: until then the put may arrive and the record may come to point at it. swept_at: it is being
-- removed, and no record may point at it any more. Which object a record is in is told by memory.archive_uri.
CREATE TABLE archive_object (
    tenant text NOT NULL,
    key text NOT NULL,
    memory_id text NOT NULL,
    version bigint NOT NULL,
    announced_at timestamptz NOT NULL DEFAULT now(),
    live_until timestamptz NOT NULL,
    swept_at timestamptz,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX archive_object_by_memory ON archive_object (tenant, memory_id);
CREATE INDEX archive_object_by_time ON archive_object (tenant, live_until);
ALTER TABLE archive_object ENABLE ROW LEVEL SECURITY;
ALTER TABLE archive_object FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON archive_object TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON archive_object TO memory_app;

-- What is left of a memory whose row is gone: versions go on counting from here if its id is written again, and
-- a backup that still holds it can be told that it was deleted.
CREATE TABLE tombstone (
    tenant text NOT NULL,
    id text NOT NULL,
    version bigint NOT NULL,
    deleted_at timestamptz NOT NULL,
    purged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);
CREATE INDEX tombstone_by_time ON tombstone (tenant, purged_at);
ALTER TABLE tombstone ENABLE ROW LEVEL SECURITY;
ALTER TABLE tombstone FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tombstone TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON tombstone TO memory_app;

-- The version a memory is first written with: above the one it was deleted at, if it was there before.
CREATE FUNCTION first_version(of_tenant text, of_id text) RETURNS bigint
LANGUAGE sql STABLE
RETURN next_version(coalesce((SELECT version FROM tombstone WHERE tenant = of_tenant AND id = of_id), 0));
