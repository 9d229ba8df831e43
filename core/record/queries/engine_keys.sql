-- as: app
SELECT epoch, hash_key, now() AS moment FROM engine;
