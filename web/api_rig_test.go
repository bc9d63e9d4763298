package web_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

// apiRig is an API that is served over a database of its own.
type apiRig struct {
	*httptest.Server
	db  *testdb.DB
	api *web.API
}

func newAPI(t testing.TB, config web.APIConfig) *apiRig {
	t.Helper()
	db := testdb.New(t)
	config.Pool = db.Pool(t)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	api := web.NewAPI(config)
	server := httptest.NewServer(api)
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(server.Close)
	t.Cleanup(api.Stop)
	return &apiRig{server, db, api}
}

// answered is what a request was answered with.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request; a body is JSON unless headers, in pairs, say otherwise.
func (r *apiRig) do(t testing.TB, method, path, body string, headers ...string) answered {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{response.StatusCode, response.Header, content}
}

// want fails unless the status is this, and returns the answer as T.
func want[T any](t testing.TB, a answered, status int) (v T) {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// told is a problem.
type told struct {
	Type, Title, Detail string
	Status              int
	Errors              []struct{ Message, Location string }
}

// where is the place of the first error.
func (p told) where() string {
	if len(p.Errors) == 0 {
		return ""
	}
	return p.Errors[0].Location
}
