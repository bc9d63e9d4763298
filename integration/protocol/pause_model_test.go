package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// pauseSeed is LOCKSTEP_SEED, or a new one; it is told.
func pauseSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LOCKSTEP_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("LOCKSTEP_SEED=%d", seed)
	return seed
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomScope is one of 26, of which many overlap.
func randomScope(r *rand.Rand) store.Scope {
	queue, tenant, key := pick(r, "q", "r"), pick(r, "t", "u"), pick(r, "1", "2")
	return pick(r,
		store.Scope{Queue: queue}, store.Scope{Kind: pick(r, "k", "l")}, store.Scope{Queue: queue, Kind: pick(r, "k", "l")},
		store.Scope{Tenant: tenant}, store.Scope{Queue: queue, Tenant: tenant},
		store.Scope{Queue: queue, OrderingKey: key}, store.Scope{Queue: queue, Tenant: tenant, OrderingKey: key})
}

func randomJob(r *rand.Rand) store.NewJob {
	return store.NewJob{
		Queue: pick(r, "q", "r"), Kind: pick(r, "k", "l"), Tenant: pick(r, "", "t", "u"), OrderingKey: pick(r, "", "", "1", "2"),
	}
}

// coversJob is what a pause means, in Go.
func coversJob(s store.Scope, j store.NewJob) bool {
	in := func(part, of string) bool { return part == "" || part == of }
	if s.OrderingKey != "" && s.Tenant != j.Tenant {
		return false // none is one too
	}
	return in(s.Queue, j.Queue) && in(s.Kind, j.Kind) && in(s.Tenant, j.Tenant) && in(s.OrderingKey, j.OrderingKey)
}

// TestOverlappingPauses compares random sequences of pauses, resumes, enqueues
// and claims with a model: what can be claimed is what no pause covers, and what
// is parked is what one does.
func TestOverlappingPauses(t *testing.T) {
	t.Parallel()
	seed := pauseSeed(t)
	run(t, func(s *scene) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &pauseModel{scene: s, jobs: make(map[int64]store.NewJob)}
		for step := range 250 {
			switch n := r.IntN(10); {
			case n < 2:
				m.doPause(randomScope(r))
			case n < 5:
				m.doResume(randomScope(r))
			case n < 8:
				job := randomJob(r)
				added, err := s.store.Enqueue(s.t.Context(), job)
				must("enqueue", err)
				m.jobs[added.ID] = job
			default:
				m.claimAll()
			}
			m.check(step)
		}
		for _, scope := range slices.Clone(m.pauses) {
			m.doResume(scope)
		}
		m.claimAll()
		want("jobs left", len(m.jobs), 0)
	})
}

type pauseModel struct {
	*scene
	pauses []store.Scope
	jobs   map[int64]store.NewJob // not finished
}

func (m *pauseModel) doPause(scope store.Scope) {
	fresh, err := m.store.Pause(m.t.Context(), scope, store.PauseNote{})
	must("pause", err)
	want(fmt.Sprintf("%+v is new", scope), fresh, !slices.Contains(m.pauses, scope))
	if fresh {
		m.pauses = append(m.pauses, scope)
	}
}

func (m *pauseModel) doResume(scope store.Scope) {
	want(fmt.Sprintf("%+v was paused", scope), m.resume(scope).WasPaused, slices.Contains(m.pauses, scope))
	m.pauses = slices.DeleteFunc(m.pauses, func(s store.Scope) bool { return s == scope })
}

func (m *pauseModel) paused(job store.NewJob, of ...string) bool {
	return slices.ContainsFunc(m.pauses, func(s store.Scope) bool {
		return coversJob(s, job) && (of == nil || s.Tenant != "" || s.OrderingKey != "")
	})
}

// claimAll claims and completes until there is nothing left, and sees that just
// what is paused is.
func (m *pauseModel) claimAll() {
	for taken := 1; taken > 0; {
		taken = 0
		for _, queue := range []string{"q", "r"} {
			claimed, err := m.store.Claim(m.t.Context(), store.ClaimArgs{Worker: m.worker, Queue: queue, Kinds: []string{"k", "l"}, Max: 3, Lease: time.Minute})
			must("claim", err)
			taken += len(claimed.Jobs) + claimed.Parked
			for _, job := range claimed.Jobs {
				if m.paused(m.jobs[job.ID]) {
					m.failf("job %+v was claimed under %+v", m.jobs[job.ID], m.pauses)
				}
				delete(m.jobs, job.ID)
			}
			m.finish(store.Completed, claimed.Jobs...)
		}
	}
	heads := make(map[string]bool) // lanes whose first job was met
	ids := make([]int64, 0, len(m.jobs))
	for id := range m.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		job := m.jobs[id]
		lane := strings.Join([]string{job.Queue, job.Tenant, job.OrderingKey}, "/")
		if (job.OrderingKey == "" || !heads[lane]) && !m.paused(job) {
			m.failf("job %+v can't be claimed under %+v", job, m.pauses)
		}
		heads[lane] = true
	}
}

// check sees that what is parked has a pause over it that parks.
func (m *pauseModel) check(step int) {
	for _, id := range value[[]int64](m.session, "select coalesce(array_agg(id), '{}') from lockstep.job where hold = 'p'") {
		if !m.paused(m.jobs[id], "tenant or key") {
			m.failf("step %d: job %+v is parked under %+v", step, m.jobs[id], m.pauses)
		}
	}
}

// TestNoRaceLeavesAJobParked: claims, commits, and overlapping pauses and resumes
// run against each other, and nobody sweeps. Whenever they stand still, what is
// parked has a pause over it, and once all is resumed, everything runs.
func TestNoRaceLeavesAJobParked(t *testing.T) {
	t.Parallel()
	db, seed := testdb.New(t), pauseSeed(t)
	conns := make([]*store.Store, 9)
	for i := range conns {
		conns[i] = store.New(db.Conn(t))
	}
	for round := range 6 {
		var all errgroup.Group
		limit := time.Now().Add(300 * time.Millisecond)
		for i, db := range conns {
			r := rand.New(rand.NewPCG(seed, uint64(100*round+i)))
			all.Go(func() error {
				for time.Now().Before(limit) {
					if err := race(t, db, r, i); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := testdb.Value[int](t, db, "select count(*) from lockstep.job j where hold = 'p' and cardinality(lockstep.paused(array[j.id])) = 0"); n > 0 {
			t.Fatalf("round %d: %d jobs are parked without a pause", round, n)
		}
	}
	resumeAll(t, db)
	for left := 1; left > 0; left = testdb.Value[int](t, db, "select count(*) from lockstep.job where stage = 'r' and worker = lockstep.nobody()") {
		for _, queue := range []string{"q", "r"} {
			if err := workOff(t, conns[0], queue); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := testdb.Value[string](t, db, "select coalesce(json_agg(j)::text, '') from lockstep.job j"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// race is what one of the sessions does once.
func race(t *testing.T, db *store.Store, r *rand.Rand, i int) error {
	switch {
	case i < 3:
		return workOff(t, db, pick(r, "q", "r"))
	case i < 5:
		jobs := make([]store.NewJob, 1+r.IntN(5))
		for n := range jobs {
			jobs[n] = randomJob(r)
			jobs[n].Payload = json.RawMessage(`{}`)
		}
		_, err := db.EnqueueMany(t.Context(), jobs)
		return err
	case r.IntN(2) == 0:
		_, err := db.Pause(t.Context(), randomScope(r), store.PauseNote{})
		return err
	}
	_, err := db.Resume(t.Context(), randomScope(r))
	if errors.Is(err, store.ErrBusy) {
		return nil
	}
	return err
}

// workOff claims and completes once.
func workOff(t *testing.T, db *store.Store, queue string) error {
	args := store.ClaimArgs{Worker: store.NewWorkerID(), Queue: queue, Kinds: []string{"k", "l"}, Max: 10, Lease: time.Minute}
	claimed, err := db.Claim(t.Context(), args)
	reports := make([]store.Finish, len(claimed.Jobs))
	for i, job := range claimed.Jobs {
		reports[i] = store.Finish{Claim: claimOf(job), Outcome: store.Completed}
	}
	for err == nil && len(reports) > 0 {
		var answers map[int64]store.Finished
		answers, err = db.Finish(t.Context(), store.FinishArgs{Worker: args.Worker, Reports: reports, Lease: args.Lease})
		reports = slices.DeleteFunc(reports, func(f store.Finish) bool {
			return answers[f.ID].State == store.FinishDone || answers[f.ID].State == store.FinishAlready
		})
	}
	return err
}
