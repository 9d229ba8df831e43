-- as: app
UPDATE erasure SET collect_after = %(after)s, collected = collected OR %(collected)s
WHERE tenant = %(tenant)s AND id = %(erasure)s;
