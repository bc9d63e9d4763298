package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// request builds a push. connected tells whether a connection was there to send
// it on.
func (p *Push) request(ctx context.Context, job dispatcher.Job[json.RawMessage], now time.Time) (r *http.Request, connected func() bool, err error) {
	var there atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { there.Store(true) }})
	// A body that can't be had again keeps net/http from sending a push twice
	// by itself when a connection ends in between: the app may have seen it.
	body := io.MultiReader(bytes.NewReader(job.Payload))
	r, err = http.NewRequestWithContext(ctx, http.MethodPost, p.config.URL, body)
	if err != nil {
		return nil, nil, err
	}
	r.ContentLength = int64(len(job.Payload))
	p.describe(r.Header, job, now)
	return r, there.Load, p.sign(r.Header, job, now)
}

// describe puts what is known of a job in headers.
func (p *Push) describe(h http.Header, job dispatcher.Job[json.RawMessage], now time.Time) {
	id := strconv.FormatInt(job.ID, 10)
	deadline := now.Add(p.config.Timeout)
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "lockstep")
	h.Set("Idempotency-Key", id)
	h.Set("Lockstep-Kind", headerText(job.Kind))
	h.Set("Lockstep-Queue", headerText(job.Queue))
	if job.Tenant != "" {
		h.Set("Lockstep-Tenant", headerText(job.Tenant))
	}
	if job.OrderingKey != "" {
		h.Set("Lockstep-Ordering-Key", headerText(job.OrderingKey))
	}
	h.Set("Lockstep-Attempt", strconv.Itoa(job.Attempt))
	h.Set("Lockstep-Max-Attempts", strconv.Itoa(job.MaxAttempts))
	h.Set("Lockstep-Fencing-Token", strconv.FormatInt(job.Fence, 10))
	h.Set("Lockstep-Deadline", deadline.UTC().Format(time.RFC3339Nano))
	h.Set("Lockstep-Enqueued-At", job.CreatedAt.UTC().Format(time.RFC3339Nano))
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := jobHeader(job.Headers, name); value != "" {
			h.Set(name, headerText(value))
		}
	}
}

// sign adds the headers of Standard Webhooks, with a signature by each secret.
func (p *Push) sign(h http.Header, job dispatcher.Job[json.RawMessage], now time.Time) error {
	id := strconv.FormatInt(job.ID, 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	var signatures []string
	for _, signer := range p.signers {
		signature, err := signer.Sign(id, now, job.Payload)
		if err != nil {
			return err
		}
		signatures = append(signatures, signature)
	}
	if len(signatures) > 0 {
		h.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
	return nil
}

// jobHeader is a header of the job's own, if it is text.
func jobHeader(headers json.RawMessage, name string) string {
	var all map[string]any
	_ = json.Unmarshal(headers, &all) // an object, by the schema
	value, _ := all[name].(string)
	return value
}

// headerText makes any text fit for a header: percent-encoded UTF-8 where it is
// not visible ASCII, or a percent sign.
func headerText(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}
