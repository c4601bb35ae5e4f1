package toolserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Run is the main function of a command: it calls serve with the arguments, with a context that ends at a
// signal, and exits with 1 after an error, with 0 after -help.
func Run(serve func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Names is a flag that may be given again.
type Names []string

// String returns the values, separated by commas.
func (n *Names) String() string { return strings.Join(*n, ", ") }

// Set adds a value.
func (n *Names) Set(value string) error {
	if value == "" {
		return errors.New("want a name")
	}
	*n = append(*n, value)
	return nil
}
