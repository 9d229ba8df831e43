-- as: app
-- Whoever keeps something sealed makes sure, until its transaction ends, that the key is not destroyed meanwhile.
SELECT id FROM data_key WHERE tenant = %(tenant)s AND id = %(id)s FOR KEY SHARE;
