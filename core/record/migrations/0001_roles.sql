-- Two ordinary roles, which hold no rights beyond the grants in these files:
--   memory_app     works for one tenant, named in memory.tenant for the length of a transaction
--   memory_worker  claims, counts and schedules over all tenants; sees ids and numbers, no content
-- Roles belong to the whole server, so another database of it may have made them already.
DO $$
BEGIN
    BEGIN
        CREATE ROLE memory_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    BEGIN
        CREATE ROLE memory_worker NOLOGIN NOSUPERUSER NOBYPASSRLS;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
END
$$;

DO $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT memory_app, memory_worker TO %I', current_user);
    END IF;
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO memory_app', current_database());
END
$$;

GRANT USAGE ON SCHEMA public TO memory_app, memory_worker;

-- The tenant of this transaction; null when none was named, and then no policy lets anything through.
CREATE FUNCTION current_tenant() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN nullif(current_setting('memory.tenant', true), '');

-- What holds for the whole engine. epoch: see core/model/version.py. hash_key: keys text hashes.
CREATE TABLE engine (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 8191),
    hash_key bytea NOT NULL
);
INSERT INTO engine (hash_key)
VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
GRANT SELECT ON engine TO memory_app;
GRANT SELECT (epoch) ON engine TO memory_worker;

-- The version after `current` (0: there is none yet); the same rule as core/model/version.py.
CREATE FUNCTION next_version(current bigint) RETURNS bigint
LANGUAGE sql STABLE
RETURN greatest(current + 1, (SELECT epoch FROM engine) * 1099511627776 + 1);
