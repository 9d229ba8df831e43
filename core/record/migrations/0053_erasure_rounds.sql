-- What an erasure comes to is taken in page by page: collect_after is behind which id the next page begins, collected
-- that the first pass is done. round_at: items removed since then are done in this round. ended_at: all that was asked
-- for was gone from the record; what is written afterwards is another matter.
ALTER TABLE erasure
    ADD COLUMN collect_after text NOT NULL DEFAULT '',
    ADD COLUMN collected boolean NOT NULL DEFAULT false,
    ADD COLUMN round_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN ended_at timestamptz;
-- meant_at: when it was asked. A row that nobody has written since is meant, whatever has raised its version.
ALTER TABLE erasure_item
    ADD COLUMN meant_at timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN removed_at timestamptz;
-- Of their own, because under row-level security no index is used through ->>, which is not leakproof.
ALTER TABLE memory_version
    ADD COLUMN session text GENERATED ALWAYS AS (record ->> 'session') STORED,
    ADD COLUMN subject text GENERATED ALWAYS AS (record ->> 'subject') STORED;
CREATE INDEX memory_version_by_session ON memory_version (tenant, session, id, version) WHERE session IS NOT NULL;
CREATE INDEX memory_version_by_subject ON memory_version (tenant, subject, id, version) WHERE subject IS NOT NULL;
-- In the order of ids, in which an erasure goes through them.
DROP INDEX memory_by_subject;
CREATE INDEX memory_by_subject ON memory (tenant, subject, id) WHERE subject IS NOT NULL;
