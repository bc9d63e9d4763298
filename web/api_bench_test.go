package web_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

// BenchmarkBatch measures what the batch route enqueues in a second, 10,000
// items of a small payload in each request.
func BenchmarkBatch(b *testing.B) {
	r := newAPI(b, web.APIConfig{})
	const items = 10_000
	body := bytes.Repeat([]byte(`{"kind": "mail.send", "payload": {"to": "ann@example.com", "n": 17}}`+"\n"), items)
	began := time.Now()
	for range b.N {
		response, err := r.Client().Post(r.URL+"/v1/jobs/batch", "application/x-ndjson", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		answers, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || bytes.Count(answers, []byte(`"created"`)) != items {
			b.Fatalf("%v: %.200s", err, answers)
		}
	}
	b.ReportMetric(float64(b.N*items)/time.Since(began).Seconds(), "jobs/s")
}

// BenchmarkPost compares the median of single requests with that of the same
// enqueue by SQL on a pool, turn by turn.
func BenchmarkPost(b *testing.B) {
	r := newAPI(b, web.APIConfig{})
	db := store.New(r.db.Pool(b))
	var requests, statements []time.Duration
	for range b.N + 20 {
		began := time.Now()
		response, err := r.Client().Post(r.URL+"/v1/jobs", "application/json", bytes.NewReader([]byte(`{"kind": "mail.send", "payload": {"n": 17}}`)))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		requests = append(requests, time.Since(began))
		if response.StatusCode != http.StatusCreated {
			b.Fatal(response.Status)
		}
		began = time.Now()
		if _, err := db.Enqueue(b.Context(), store.NewJob{Kind: "mail.send", Payload: map[string]int{"n": 17}}); err != nil {
			b.Fatal(err)
		}
		statements = append(statements, time.Since(began))
	}
	post, sql := median(requests[20:]), median(statements[20:]) // the first make connections and plans
	b.ReportMetric(float64(post.Microseconds()), "µs-post")
	b.ReportMetric(float64(sql.Microseconds()), "µs-sql")
	b.ReportMetric(float64(post)/float64(sql), "post/sql")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
