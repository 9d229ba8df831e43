-- as: app
-- What the gate said. A generation that does not pass is being built still, also if an earlier gate let it pass.
UPDATE generation
SET verdict = %(verdict)s, state = CASE WHEN %(passed)s::boolean THEN 'verified' ELSE 'building' END,
    changed_at = CASE WHEN state = CASE WHEN %(passed)s::boolean THEN 'verified' ELSE 'building' END
                      THEN changed_at ELSE now() END
WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('building', 'verified')
RETURNING state;
