-- as: app
-- Take one entry out of the queue with the reason, unless something newer was enqueued meanwhile.
UPDATE outbox
SET lease_owner = NULL, lease_until = NULL,
    set_aside_at = CASE WHEN seq = claimed_seq THEN now() END,
    reason = CASE WHEN seq = claimed_seq THEN %(reason)s END,
    claimed_seq = NULL
WHERE tenant = %(tenant)s AND generation = %(generation)s AND memory_id = %(id)s
  AND lease_owner = %(owner)s AND lease_until > now();
