-- Errors that ended a task, counted for the metrics: which task, which type of the error tree. No tenant, no content.
CREATE TABLE task_error (
    task text NOT NULL,
    kind text NOT NULL,
    count bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task, kind)
);
GRANT SELECT, INSERT, UPDATE ON task_error TO memory_worker;

-- How much an object takes, as it was announced; null: announced by an earlier release.
ALTER TABLE archive_object ADD COLUMN bytes bigint;
CREATE POLICY every_tenant ON archive_object FOR SELECT TO memory_worker USING (true);
GRANT SELECT (tenant, bytes, swept_at) ON archive_object TO memory_worker;
