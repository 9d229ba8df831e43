-- as: app
-- Held until the transaction ends: whoever takes the lock next waits for it, and so comes after what it did.
SELECT number FROM fence WHERE tenant = %(tenant)s AND name = %(name)s FOR SHARE;
