package verify

import (
	"testing"
	"time"
)

func TestTimeoutSetting(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]string{
		-1: "0", time.Nanosecond: "1ms", 90 * time.Second: "90000ms",
	} {
		if got := (reader{timeout: timeout}).timeoutSetting(); got == nil || *got != want {
			t.Errorf("%v: %v, want %s", timeout, got, want)
		}
	}
	if got := (reader{}).timeoutSetting(); got != nil {
		t.Errorf("without a timeout the setting is %s, want it left alone", *got)
	}
}
