-- as: app
COPY pg_temp.incoming (
    id, embedding_id, subject, scope, project, agent, session, position, speaker, role, type, title, content,
    tags, labels, metadata, importance, source, expires_at, created_at, key_id, number)
FROM STDIN (FORMAT BINARY);
