-- Every claim reads the dispatchers, and each of them writes its row anew every
-- few seconds: its versions stay on one page, and are cleared away early.
alter table @schema@.dispatcher set (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
