package handler

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// PushConfig says where jobs are pushed, and how.
type PushConfig struct {
	// URL is the target, http or https. A user name or password in it is
	// refused: it would be found in too many places.
	URL string

	// Timeout bounds the whole exchange, from the connection to the end of the
	// answer: 1 ms to 24 h. A push that runs into it is a failed attempt.
	// Zero: 1 min.
	Timeout time.Duration

	// Parallel bounds the pushes to this target at a time; further ones wait, in
	// their slots. 1 to 10000. Zero: 100.
	Parallel int

	// Secrets sign the pushes, as Standard Webhooks has it
	// (https://www.standardwebhooks.com): base64, "whsec_" in front or not. While
	// one is being replaced, list both: each signs. None: pushes are not signed.
	Secrets []string

	// Allow are the addresses that a target may have, looked at as each
	// connection is made. Nil: loopback.
	Allow []netip.Prefix

	// Answers change what a status ("503") or a class of them ("5xx") means.
	Answers map[string]Verdict

	// Sent is told how long each exchange took, and its status; 0 if there was
	// none. For metrics. Nil: nobody.
	Sent func(status int, took time.Duration)
}

// Push sends jobs to an app over HTTP: POST, with the payload as it is stored
// for a body, and what else is known of the job in headers (see docs/push.md).
// The app's answer is the outcome.
type Push struct {
	config  PushConfig
	name    string // the URL, without what may be secret
	client  *http.Client
	signers []*standardwebhooks.Webhook
	slots   chan struct{}
	circuit *circuit
}

// NewPush returns a Push. The error names the field at fault, and quotes no
// secret.
func NewPush(c PushConfig) (*Push, error) {
	target, err := url.Parse(c.URL)
	switch {
	case err == nil:
		err = checkTarget(target)
	case !strings.Contains(c.URL, "://"):
		err = errNoScheme
	}
	if err != nil {
		return nil, fmt.Errorf("url: %w", unquoted(err))
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Parallel == 0 {
		c.Parallel = 100
	}
	if c.Allow == nil {
		c.Allow = loopback
	}
	if c.Sent == nil {
		c.Sent = func(int, time.Duration) {}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := &Push{config: c, name: target.Scheme + "://" + target.Host + target.EscapedPath(), slots: make(chan struct{}, c.Parallel), circuit: newCircuit()}
	for i, secret := range c.Secrets {
		signer, err := signerOf(secret)
		if err != nil {
			return nil, fmt.Errorf("secrets: number %d %w", i+1, err)
		}
		p.signers = append(p.signers, signer)
	}
	p.client = &http.Client{
		Transport:     newTransport(c),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// signerOf reads a secret. An empty one would sign with a key that everybody has.
func signerOf(secret string) (*standardwebhooks.Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	switch {
	case err != nil:
		return nil, errors.New("is not base64")
	case len(key) == 0:
		return nil, errors.New("is empty")
	}
	return standardwebhooks.NewWebhookRaw(key)
}

func checkTarget(target *url.URL) error {
	switch {
	case target.Scheme != "http" && target.Scheme != "https":
		return errNoScheme
	case target.Hostname() == "":
		return errors.New("it names no host")
	case !validPort(target.Port()):
		return fmt.Errorf("its port is %s, want 1 to 65535", target.Port())
	case target.User != nil:
		return errors.New("it has a user name or password in it: sign pushes with a secret instead")
	case target.Fragment != "":
		return errors.New("it has a fragment (#…), which is never sent")
	}
	return nil
}

// errNoScheme is also the error of a host and port alone, which url.Parse takes
// for something else.
var errNoScheme = errors.New("it must begin with http:// or https://")

// validPort holds for "", too: the scheme's own.
func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// unquoted is an error of url.Parse without the URL.
func unquoted(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return quoting.Err
	}
	return err
}

func (c PushConfig) validate() error {
	switch {
	case c.Timeout < time.Millisecond || c.Timeout > 24*time.Hour:
		return fmt.Errorf("timeout: it is %v, want 1ms to 24h", c.Timeout)
	case c.Parallel < 1 || c.Parallel > 10000:
		return fmt.Errorf("parallel: it is %d, want 1 to 10000", c.Parallel)
	}
	if err := checkAnswers(c.Answers); err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	return nil
}

// Name is the target for people: its URL without the query.
func (p *Push) Name() string { return p.name }

// Circuit tells whether the target is pushed to.
func (p *Push) Circuit() CircuitState { return p.circuit.current() }

// Close lets go of idle connections. Pushes under way go on.
func (p *Push) Close() {
	p.circuit.close()
	p.client.CloseIdleConnections()
}

// Run pushes a job and returns its outcome.
func (p *Push) Run(ctx context.Context, job dispatcher.Job[json.RawMessage]) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	probe, err := p.circuit.enter(ctx)
	var closed *openError
	if errors.As(err, &closed) {
		return dispatcher.SnoozeBecause(closed.until, fmt.Errorf("push to %s: %w", p.name, err))
	}
	if err != nil {
		return err
	}
	defer p.circuit.abandon(probe) // for what comes to no other end
	return p.push(ctx, job, probe)
}

// push is one exchange.
func (p *Push) push(ctx context.Context, job dispatcher.Job[json.RawMessage], probe bool) error {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Timeout, dispatcher.ErrTimeout)
	defer cancel()
	request, connected, err := p.request(ctx, job, began)
	if err != nil {
		return backoff.Permanent(err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.config.Sent(0, time.Since(began))
		return p.unanswered(ctx, err, connected(), probe)
	}
	defer response.Body.Close()
	a := p.read(response)
	p.config.Sent(a.status, time.Since(began))
	return p.judge(a, job, probe)
}

// unanswered is the outcome of a push without an answer. If there was no
// connection, the app can't have seen it: then it is the target's fault.
func (p *Push) unanswered(ctx context.Context, err error, connected, probe bool) error {
	err = fmt.Errorf("push to %s: %w", p.name, unquoted(err))
	cause := context.Cause(ctx)
	switch {
	case cause != nil && !errors.Is(cause, dispatcher.ErrTimeout):
		return err // of the attempt: a cancel, a shutdown, a lost lease
	case !connected:
		return dispatcher.SnoozeBecause(p.circuit.fault(probe), err)
	case cause != nil:
		p.circuit.answered(probe)
		return fmt.Errorf("%w: no answer within %v", err, p.config.Timeout)
	default:
		p.circuit.answered(probe)
		return err
	}
}

// judge is the outcome that an answer asks for.
func (p *Push) judge(a answer, job dispatcher.Job[json.RawMessage], probe bool) error {
	if a.status == http.StatusConflict && a.token > job.Fence {
		p.circuit.answered(probe)
		return dispatcher.SnoozeBecause(lostDelay, &AnswerError{Target: p.name, Status: a.status, Text: a.text, note: "the app has seen a later claim of this job"})
	}
	failure := &AnswerError{Target: p.name, Status: a.status, Text: a.text}
	verdict := p.config.verdict(a.status)
	if verdict == Target {
		return dispatcher.SnoozeBecause(p.circuit.fault(probe), failure)
	}
	p.circuit.answered(probe)
	switch {
	case verdict == Done && a.result == nil:
		return nil
	case verdict == Done:
		return job.SetResult(a.result)
	case verdict == Dead:
		return backoff.Permanent(failure)
	case a.hasDelay:
		return dispatcher.RetryAfter(a.delay, failure)
	default:
		return failure
	}
}

// lostDelay is when a job comes back whose app knows a later claim of it. There
// is one, and then this outcome changes nothing; or the app is mistaken.
const lostDelay = 30 * time.Second
