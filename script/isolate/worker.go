package isolate

import (
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// workerName is what a worker is called with, and without anything else.
const workerName = "vmcp-script-worker"

// ready is the first frame of a worker: behind it is what keeps it in.
const ready = "vmcp worker 1"

// serveRuns computes runs over the frames, and returns why there are no more.
func serveRuns(c script.Channel) error {
	return script.ServeRuns(c, script.WorkerOptions{
		Builtins: legacy.With(script.Options{Builtins: builtins.All()}).Builtins,
		Host:     func(r *script.Run) any { return remoteHost{r} },
		Errors:   codec{},
	})
}
