-- discarded: dead letters that were discarded or purged, for as long as history is
-- kept. Without it nobody could tell such a job from one that was lost.
create table @schema@.discarded (
  id           bigint primary key,
  discarded_at timestamptz not null default clock_timestamp()
);

create index discarded_age on @schema@.discarded (discarded_at);
