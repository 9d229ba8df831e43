-- as: app
-- COPY is refused under row-level security, so a bulk write copies here first.
CREATE TEMPORARY TABLE incoming (
    id text, embedding_id uuid, subject text, scope text, project text, agent text, session text,
    position bigint, speaker text, role text, type text, title text, content text, tags text[],
    labels jsonb, metadata jsonb, importance double precision, source jsonb, expires_at timestamptz,
    created_at timestamptz, key_id text, number bigint
) ON COMMIT DROP;
