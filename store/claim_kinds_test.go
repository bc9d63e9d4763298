package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// TestClaimKinds by name, by pattern, and with exceptions: the closer match
// decides.
func TestClaimKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kinds, except, want string }{
		{"mail.a", "", "mail.a"},
		{"mail.a mail.b", "mail.b", "mail.a"},
		{"mail.*", "", "mail.a mail.b mail.vip.a"},
		{"mail.*", "mail.vip.*", "mail.a mail.b"},
		{"mail.*", "mail.*", ""},
		{"mail.vip.* mail.*", "mail.*", "mail.vip.a"},
		{"mail.vip.a", "mail.*", "mail.vip.a"},
		{"*", "", "% mail.a mail.b mail.vip.a ü*"},
		{"*", "ü* mail.*", "%"},
		{"ü*", "", "ü*"},
		{"% none *mail", "", "%"},
	} {
		t.Run(c.kinds+" without "+c.except, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for _, kind := range []string{"mail.a", "mail.b", "mail.vip.a", "%", "ü*"} {
				if _, err := r.Enqueue(t.Context(), store.NewJob{Kind: kind}); err != nil {
					t.Fatal(err)
				}
			}
			claimed, err := r.Claim(t.Context(), store.ClaimArgs{
				Worker: r.worker, Queue: "default", Kinds: strings.Fields(c.kinds), Except: strings.Fields(c.except), Max: 10, Lease: lease,
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, job := range claimed.Jobs {
				got = append(got, job.Kind)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("claimed %q, want %q", got, c.want)
			}
		})
	}
}
