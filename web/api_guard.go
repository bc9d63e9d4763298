package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// Guard lets through to h what may do so: a request that names the right host,
// with a token that allows it, and, if a browser sends it, from a page of this
// address or only to read. What NewAPI returns has its guard already.
func (a *API) Guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if p := a.refusal(r); p != nil {
			if p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			writeProblem(w, p)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// onceHeaders are those that say what a request is and who sends it: of two, a
// proxy and this server might believe different ones.
var onceHeaders = []string{"Authorization", "Content-Type", "Content-Encoding", "Idempotency-Key", "Origin", "Sec-Fetch-Site"}

// refusal is why a request is not let through; nil: it is.
func (a *API) refusal(r *http.Request) *problem {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	write, read := a.config.Token, a.config.ReadToken
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := strings.EqualFold(scheme, "Bearer")
	full := given && same(token, write)
	twice := slices.IndexFunc(onceHeaders, func(name string) bool { return len(r.Header.Values(name)) > 1 })
	switch {
	case twice >= 0:
		return newProblem(http.StatusBadRequest, "header."+onceHeaders[twice], "it appears twice; give it once")
	case !a.hostAllowed(r):
		return newProblem(http.StatusForbidden, "header.Host", "this address is served under the names of loopback alone; ask for http://127.0.0.1, or have api_hosts name this host")
	case write+read != "" && !full && !(given && same(token, read)):
		return newProblem(http.StatusUnauthorized, "header.Authorization", "no token, or not the right one; send Authorization: Bearer and the token")
	case write+read != "" && !full && !reads:
		return newProblem(http.StatusForbidden, "header.Authorization", "this token only reads; send the one that may write, if there is one")
	case a.origins.Check(r) != nil:
		return newProblem(http.StatusForbidden, "header.Origin", "a page of another origin may not write here")
	case !slices.Contains([]string{"", "identity"}, strings.ToLower(r.Header.Get("Content-Encoding"))):
		return newProblem(http.StatusUnsupportedMediaType, "header.Content-Encoding", "bodies can't be compressed; send it as it is")
	}
	return nil
}

// same compares in a time that does not depend on where the two differ. "" is
// no token.
func same(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// hostAllowed refuses what a page of another name could send to loopback, by
// having its name resolve to it.
func (a *API) hostAllowed(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := local.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback() || host == "localhost" || slices.Contains(a.config.Hosts, host)
}

// bodyTime is how long a body may take.
const bodyTime = 10 * time.Second

// serve hands a request to its route, or says that there is none.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	defer a.recover(w, r)
	if asked := r.URL.EscapedPath(); path.Clean(asked) != asked { // the mux would redirect, in HTML
		writeProblem(w, nothingThere())
		return
	}
	if _, pattern := a.mux.Handler(r); pattern == "" {
		a.noRoute(w, r)
		return
	}
	if p := queryProblem(r.URL.RawQuery); p != nil {
		writeProblem(w, p)
		return
	}
	// A client that does not read its answer does not keep it for ever.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longestRequest + time.Minute))
	if r.Method != http.MethodPost || r.URL.Path == batchPath || r.URL.Path == drainPath {
		a.mux.ServeHTTP(w, r)
		return
	}
	release, ok := a.enter(r.Context(), a.bodies)
	if !ok {
		writeProblem(w, newProblem(http.StatusServiceUnavailable, "", "too many requests at a time; send it again in a second"))
		return
	}
	defer release()
	if r.ContentLength > a.config.MaxBody {
		writeProblem(w, tooLong(a.config.MaxBody).problem())
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, a.config.MaxBody)
	a.mux.ServeHTTP(w, r)
}

// queryProblem refuses what net/url would leave out, a parameter that appears
// twice, and one that is empty: a list without its filter, or a batch that is not
// atomic, is not what was asked for. No cursor is the first page's.
func queryProblem(query string) *problem {
	all, err := url.ParseQuery(query)
	if err != nil {
		return newProblem(http.StatusBadRequest, "query", "it is not a query as in a=b&c=d, with % before two hexadecimal digits")
	}
	for name, values := range all {
		if len(values) > 1 {
			return newProblem(http.StatusBadRequest, fmt.Sprintf("query.%.100s", name), "it appears twice; give it once")
		}
		if values[0] == "" && name != "after" {
			return newProblem(http.StatusUnprocessableEntity, fmt.Sprintf("query.%.100s", name), "it is empty; leave it out if there is none")
		}
	}
	return nil
}

// places bound how many requests do something at a time.
type places chan struct{}

// take takes a place, if one is free.
func (p places) take() (release func(), ok bool) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, true
	default:
		return nil, false
	}
}

// enter takes a place, waiting for one as long as a request may take.
func (a *API) enter(ctx context.Context, p places) (release func(), ok bool) {
	if release, ok := p.take(); ok { // mostly, and no timer is needed
		return release, true
	}
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	select {
	case p <- struct{}{}:
		return func() { <-p }, true
	case <-ctx.Done():
		return nil, false
	}
}

// noRoute answers for the mux, as a problem.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request) {
	answer := &answerProbe{header: http.Header{}}
	a.mux.ServeHTTP(answer, r)
	switch allow := answer.header.Get("Allow"); {
	case answer.status == http.StatusMethodNotAllowed:
		w.Header().Set("Allow", allow)
		writeProblem(w, newProblem(answer.status, "method", r.Method+" is not allowed here; allowed: "+allow))
	default:
		writeProblem(w, nothingThere())
	}
}

func nothingThere() *problem {
	return newProblem(http.StatusNotFound, "path", "there is nothing at this path; /openapi.json lists what there is")
}

// answerProbe keeps of an answer what its status and headers are.
type answerProbe struct {
	header http.Header
	status int
}

func (p *answerProbe) Header() http.Header         { return p.header }
func (p *answerProbe) Write(b []byte) (int, error) { return len(b), nil }
func (p *answerProbe) WriteHeader(status int)      { p.status = status }

// recover answers for a handler that panicked.
func (a *API) recover(w http.ResponseWriter, r *http.Request) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v)
	default:
		a.config.Logger.ErrorContext(r.Context(), "a request failed", "method", r.Method, "route", r.Pattern, "panic", v)
		writeProblem(w, newProblem(http.StatusInternalServerError, "", "the request failed here; the log says why"))
	}
}
