-- as: app
-- From here on nothing of it is claimed, and no swap may name it. Writers go on enqueueing, so that it can be undone.
UPDATE generation g
SET dropping_at = coalesce(g.dropping_at, now())
WHERE g.tenant = %(tenant)s AND g.number = %(number)s AND g.state IN ('retiring', 'aborted')
  AND NOT EXISTS (SELECT FROM swap_intent s
                  WHERE s.tenant = g.tenant AND s.ended_at IS NULL AND g.number IN (s.from_generation, s.to_generation))
RETURNING g.number;
