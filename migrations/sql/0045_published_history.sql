-- Upkeep deletes from the default partition. PostgreSQL refuses that in a table
-- without a key that is published, as all are by FOR ALL TABLES.
alter table @schema@.finished_job_default replica identity full;
