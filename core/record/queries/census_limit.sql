-- as: worker
-- Counting for metrics gives up sooner than work does.
SELECT set_config('statement_timeout', %(timeout)s, true);
