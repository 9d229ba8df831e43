-- as: worker
DELETE FROM deletion_ledger;
