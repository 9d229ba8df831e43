-- as: worker
SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq FROM event_seq_seq;
