-- A claim looks for notes by the dedupe keys of its jobs.
create index dedupe_note_key on @schema@.dedupe_note (queue, tenant, dedupe_key) where not missed;
