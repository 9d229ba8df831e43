-- as: owner
-- The two ordinary roles: whether they exist, may be taken, and are held by the policies.
SELECT r.rolname AS role, pg_has_role(current_user, r.oid, 'MEMBER') AS may_take,
       (r.rolsuper OR r.rolbypassrls) AS passes_policies
FROM pg_roles r
WHERE r.rolname = ANY (%(roles)s::text[]);
