package handler_test

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstep-pg/lockstep/handler"
)

// TestC96NoDetours: a target leads a push nowhere else, whatever it answers, and
// a name counts for the address that is connected to, not for what it was before.
func TestC96NoDetours(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := newRig(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	places := []string{other.app.URL + "/", "http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "//127.0.0.1:1/", "/again"}
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/again" {
			elsewhere.Add(1)
		}
		code, _ := strconv.Atoi(req.URL.Query().Get("code"))
		place, _ := strconv.Atoi(req.URL.Query().Get("place"))
		w.Header().Set("Location", places[place])
		w.WriteHeader(code)
	})
	for _, code := range []string{"301", "302", "303", "307", "308"} {
		for place := range places {
			id := r.enqueue("{}")
			r.drain(r.target(handler.PushConfig{URL: r.app.URL + "/jobs?code=" + code + "&place=" + strconv.Itoa(place)}))
			if fate, note := r.fate(id); fate != "retrying 1" || !strings.Contains(note, "answered "+code) {
				t.Errorf("%s to %s: the job is %s (%s)", code, places[place], fate, note)
			}
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}

	pushes := len(r.app.got())
	byName := strings.Replace(r.app.URL, "127.0.0.1", "localhost", 1)
	id := r.enqueue("{}")
	r.drain(r.target(handler.PushConfig{URL: byName, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	if fate, note := r.fate(id); fate != "scheduled 0" || !strings.Contains(note, "not in the list of allowed ones") {
		t.Errorf("a name for an address that is not allowed: the job is %s (%s)", fate, note)
	}
	if len(r.app.got()) > pushes {
		t.Error("the address that is not allowed was pushed to")
	}
}
