-- as: worker
SELECT DISTINCT tenant FROM generation ORDER BY tenant;
