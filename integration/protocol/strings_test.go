package protocol_test

import (
	"strings"
	"testing"
)

// With standard_conforming_strings off, as old programs have it set for their
// database, a backslash in a string is not itself, in our functions' bodies too.
func TestStringsAsTheyWereReadOnce(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		listener := s.enter()
		listener.listen()
		s.exec("set standard_conforming_strings = off; set escape_string_warning = off")
		s.exec("begin")
		for _, in := range []string{"1 hour", "2 hours", "3 hours"} {
			s.exec("insert into lockstep.job (kind, run_at) values ('k', now() + $1::interval)", in)
		}
		s.exec("commit")
		want("signals of three due times", listener.signals(), "d")

		s.exec("select lockstep.make_partition((clock_timestamp() - interval '10 days')::date)")
		kept, err := s.store.Upkeep(t.Context())
		must("upkeep", err)
		want("old partitions dropped", kept.PartitionsDropped, 1)

		s.exec("insert into lockstep.job (kind) select 'k' from generate_series(1, 25)")
		s.claim(25)
		s.exec("select lockstep.cancel(id) from lockstep.job where stage = 'r'")
		want("signals of 25 cancels", strings.Count(listener.signals(), "c"), 21) // by id, then one of all

		for pattern, refused := range map[string]string{`a\`: "LS002", `a\\`: "", `\\\`: "LS002", `a*`: ""} {
			want("a replay of "+pattern, code(s.try("select lockstep.start_replay(error => $1)", pattern)), refused)
		}
	})
}
