-- as: app
-- What a tenant's terms were counted over: memories, their words, threads, and the words in threads.
SELECT coalesce(sum(memories), 0)::bigint AS memories, coalesce(sum(length), 0)::bigint AS length,
       coalesce(sum(threads), 0)::bigint AS threads, coalesce(sum(threaded_length), 0)::bigint AS threaded_length
FROM keyword_total
WHERE tenant = %(tenant)s;
