package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutURLTakesTheFlagOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, rest []string
		url        string
	}{
		{[]string{"l", "migrate", "up"}, []string{"l", "migrate", "up"}, ""},
		{[]string{"l", "--database-url", "u", "up"}, []string{"l", "up"}, "u"},
		{[]string{"l", "up", "--database-url=u"}, []string{"l", "up"}, "u"},
		{[]string{"l", "up", "--database-url"}, []string{"l", "up", "--database-url"}, ""},
		{[]string{"l", "--", "--database-url", "u"}, []string{"l", "--", "--database-url", "u"}, ""},
		{[]string{"l", "--database-url", "u", "--", "-7"}, []string{"l", "--", "-7"}, "u"},
		{[]string{"l", "--database-url-file", "f"}, []string{"l", "--database-url-file", "f"}, ""},
	} {
		rest, url := withoutURL(test.args, urlFlag)
		if diff := cmp.Diff(test.rest, rest); diff != "" || url != test.url {
			t.Errorf("withoutURL(%q) = %q, %q", test.args, rest, url)
		}
	}
}
