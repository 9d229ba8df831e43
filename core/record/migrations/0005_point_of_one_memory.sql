-- A point belongs to one memory. The planner, too, may rely on it: a look-up by point stays on this index
-- however stale the statistics are.
DROP INDEX memory_by_point;
CREATE UNIQUE INDEX memory_by_point ON memory (tenant, embedding_id);
