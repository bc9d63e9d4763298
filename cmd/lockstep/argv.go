package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	urlFlag     = "--database-url"
	urlVariable = "LOCKSTEP_DATABASE_URL"
	// urlOrigin says what the user gave, if it was not urlVariable itself.
	urlOrigin = "LOCKSTEP_DATABASE_URL_ORIGIN"
)

// hidePassword replaces the process by itself, with a database URL that holds a
// password moved from the arguments, which every user of the machine can list,
// to the environment, which only its owner can. It returns if there is nothing
// to hide.
func hidePassword(args, environ []string) error {
	args, url := withoutURL(args)
	if url == "" {
		return nil
	}
	config, err := pgconn.ParseConfig(url)
	if err != nil || config.Password == "" {
		return nil // an unusable URL ends the process in a moment anyway
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("hiding the password of %s: %w", urlFlag, err)
	}
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, urlVariable+"=") || strings.HasPrefix(entry, urlOrigin+"=")
	})
	err = syscall.Exec(self, args, append(environ, urlVariable+"="+url, urlOrigin+"="+urlFlag))
	return fmt.Errorf("hiding the password of %s: %w", urlFlag, err)
}

// withoutURL takes --database-url and its value out of args. It leaves alone
// what comes after "--" and a line that also names a file, which is an error.
func withoutURL(args []string) (rest []string, url string) {
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], urlFlag+"=")
		switch {
		case args[i] == "--", strings.HasPrefix(args[i], urlFlag+"-file"):
			return append(rest, args[i:]...), ""
		case joined:
			url = value
		case args[i] == urlFlag && i+1 < len(args):
			i++
			url = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	return rest, url
}
