-- as: worker
SELECT task, kind, count FROM task_error ORDER BY task, kind;
