package teeth

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// event is a line of go test -json.
type event struct {
	Action string
	Test   string
	Output string
}

// assertion is how a test says where it failed.
var assertion = regexp.MustCompile(`_test\.go:\d+: `)

// run runs tests with the mutant's files, and returns those that turned red by
// an assertion of their own. Anything else that goes wrong is a failure here.
func (s suite) run(t *testing.T, overlay string, tests []string) (red []string) {
	t.Helper()
	args := []string{"test", "-json", "-count=1", "-timeout=3m", "-overlay=" + overlay, "-run=" + pattern(tests), "./" + s.pkg}
	command := exec.CommandContext(t.Context(), "go", append(args, s.args...)...)
	command.Dir = root
	var errors bytes.Buffer
	command.Stderr = &errors
	output, failure := command.Output()
	outcome, text := read(output)
	for _, name := range tests {
		switch outcome[name] {
		case "fail":
			if !assertion.MatchString(text[name]) {
				t.Errorf("%s failed otherwise than by an assertion:\n%s", name, text[name])
				continue
			}
			t.Logf("%s:\n%s", name, shortened(text[name]))
			red = append(red, name)
		case "pass":
		default:
			t.Fatalf("%s did not run: %v\n%s\n%s", name, failure, errors.String(), text[""])
		}
	}
	return red
}

// pattern is -run for tests, or for one subtest.
func pattern(tests []string) string {
	if len(tests) == 1 {
		return "^" + strings.ReplaceAll(tests[0], "/", "$/^") + "$"
	}
	return "^(" + strings.Join(tests, "|") + ")$"
}

// read is how each test ended, and what it and its subtests wrote. What belongs
// to none has the name "".
func read(output []byte) (outcome, text map[string]string) {
	outcome, text = map[string]string{}, map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var e event
		if decoder.Decode(&e) != nil {
			return outcome, text
		}
		switch e.Action {
		case "output", "build-output":
			for name := e.Test; ; name = name[:strings.LastIndex(name, "/")] {
				text[name] += e.Output
				if !strings.Contains(name, "/") {
					break
				}
			}
		case "pass", "fail":
			outcome[e.Test] = e.Action
		}
	}
}

// shortened is the beginning of a test's output.
func shortened(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var said []string
	for _, line := range lines {
		if assertion.MatchString(line) && !strings.Contains(line, "[rapid] draw") && len(said) < 3 {
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}
