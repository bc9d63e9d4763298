package migrations

import (
	"errors"
	"strings"
	"testing"
)

func TestServerVersion(t *testing.T) {
	t.Parallel()
	for number, ok := range map[int]bool{90624: false, 130014: false, 139999: false, 140000: true, 150018: true, 200000: true} {
		err := checkServerVersion("that one", number)
		if (err == nil) != ok {
			t.Errorf("%d: %v", number, err)
		}
		if err != nil && (!errors.Is(err, ErrServerVersion) || !strings.Contains(err.Error(), "that one")) {
			t.Errorf("%d: %v", number, err)
		}
	}
}
