package isolate

import (
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// workerName is the only argument of a worker process.
const workerName = "vmcp-script-worker"

// ready begins the first frame of a worker; the state of its filter of system calls follows.
const ready = "vmcp worker 1"

// serveRuns computes runs over the channel, and returns the error that ended it.
func serveRuns(c script.Channel) error {
	return script.ServeRuns(c, script.WorkerOptions{
		Builtins: legacy.With(script.Options{Builtins: builtins.All()}).Builtins,
		Host:     func(r *script.Run) any { return remoteHost{r} },
		Errors:   codec{},
	})
}
