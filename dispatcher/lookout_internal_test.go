package dispatcher

import (
	"context"
	"testing"
)

// TestNoClaimOnceStopped: a look whose turn comes after the end claims nothing,
// and leaves the budget as it is.
func TestNoClaimOnceStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	s := stub(t, ctx, Config{MaxJobs: 3}, func() { t.Error("it claims") })
	stop()
	newLookout(s.queues[0]).look(ctx, ByCatchUp)
	if left := s.budget.take(9); left != 3 {
		t.Errorf("%d jobs may be claimed yet, want 3", left)
	}
}
