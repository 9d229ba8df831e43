-- as: app
-- Items that are out of every store: a run that is resumed goes on behind them.
UPDATE erasure_item SET removed_at = clock_timestamp()
WHERE tenant = %(tenant)s AND erasure = %(erasure)s AND memory_id = ANY (%(ids)s::text[]);
