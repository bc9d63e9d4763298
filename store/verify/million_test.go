package verify_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store/verify"
)

// history makes n finished jobs in a thousand lanes, a thousand of which share
// a transaction, so that commit times are real. Jobs take turns by lane.
func (s *stage) history(n int64) {
	s.Helper()
	s.sql("set synchronous_commit = off")
	s.sql("create table made (n bigint, xid xid8, at timestamptz)")
	s.sql(fmt.Sprintf(`do $$ begin
		for i in 0 .. %d loop
			insert into made values (i, pg_current_xact_id(), clock_timestamp());
			commit;
		end loop; end $$`, n/1000))
	s.sql(`insert into lockstep.finished_job (id, lane_turn, fence, enqueued_xid, run_at, created_at, claimed_at, finished_at, worker,
		attempt, max_attempts, priority, outcome, queue, kind, tenant, ordering_key, payload, headers)
		select i, i, i, m.xid, m.at, m.at, s.at + i * interval '10 us', s.at + i * interval '10 us' + interval '5 us', gen_random_uuid(),
		1, 12, 0, 'completed', 'default', 'k', '', 'lane ' || i % 1000, '{}', '{}'
		from generate_series(1, $1::bigint) i join made m on m.n = i / 1000, (select clock_timestamp() as at) s`, n)
}

// verifyHistory verifies n jobs with one defect among them, and answers how long
// that took and how much the heap grew.
func (s *stage) verifyHistory(n int64) (took time.Duration, grown int64) {
	s.Helper()
	s.history(n)
	defect := n - 99_999
	s.plant("update lockstep.finished_job set fence = 1 where id = $1", defect)
	var most int64
	before := heap()
	began := time.Now()
	report := s.verify(verify.Config{OnProgress: func(p verify.Progress) {
		if p.Rows%(16*4096) == 0 {
			most = max(most, heap())
		}
	}})
	took = time.Since(began)
	s.found(report, verify.Fence, fmt.Sprintf("job %d was", defect))
	if c := report.Checked; c.Finished != n || c.Timed != n || c.Lanes != 1000 {
		s.Errorf("checked %+v, want %d jobs, all timed, in a thousand lanes", c, n)
	}
	return took, most - before
}

// TestMemoryIsFlat: a hundred thousand jobs, of a few hundred bytes each, take
// no more than a few do.
func TestMemoryIsFlat(t *testing.T) {
	s := newStage(t)
	if took, grown := s.verifyHistory(150_000); grown > 4<<20 {
		t.Errorf("the heap grew by %d KiB in %v", grown>>10, took)
	}
}

// BenchmarkAMillionJobs has to stay below 30 s and in flat memory.
func BenchmarkAMillionJobs(b *testing.B) {
	for range b.N {
		took, grown := newStage(b).verifyHistory(1_000_000)
		b.ReportMetric(took.Seconds(), "s/verify")
		b.ReportMetric(float64(grown>>10), "KiB-grown")
		if grown > 8<<20 || took > 30*time.Second {
			b.Errorf("it took %v and %d KiB; want less than 30s and 8 MiB. The machine's load: %s", took, grown>>10, load())
		}
	}
	b.ReportMetric(0, "ns/op") // it would count the filling
}

// heap is what is in use on it, garbage left out.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// load is how busy the machine is, where that can be read.
func load() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(content))
}
