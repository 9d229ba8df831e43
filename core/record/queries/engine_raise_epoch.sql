-- as: worker
UPDATE engine SET epoch = greatest(epoch + 1, %(least)s) RETURNING epoch;
