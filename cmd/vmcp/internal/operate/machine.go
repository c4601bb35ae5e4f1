package operate

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

// memory compares the memory that scripts and clients can make an endpoint need with what this process may have, or else this
// machine has.
func (d *doctor) memory() {
	total := int64(d.cfg.Limits.TotalMemory)
	need, may := d.env.Memory(total)
	of := "this process may have"
	if may == math.MaxInt64 {
		may, of = machineMemory(), "this machine has"
	}
	if may == 0 {
		return // not known on this system
	}
	if need > may {
		d.add("memory", warn, "lower limits.totalMemory, or allow it more (GOMEMLIMIT, MemoryMax of the service)",
			"with limits.totalMemory %s, scripts and clients can make the endpoint need %s, and %s %s", script.Bytes(total), script.Bytes(need>>20<<20), of, script.Bytes(may>>20<<20))
		return
	}
	d.add("memory", ok, "", "scripts and clients can make the endpoint need %s, and %s %s", script.Bytes(need>>20<<20), of, script.Bytes(may>>20<<20))
}

// machineMemory is the memory of this machine in bytes; 0 where it is not known.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if n, _ := fmt.Sscanf(string(line), "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// descriptors checks the limit of open files, of which every client and process of a backend needs some.
func (d *doctor) descriptors() {
	limit := openFiles()
	if limit == 0 {
		return // there is no limit
	}
	const enough = 1024
	if limit < enough {
		d.add("descriptors", warn, "raise it: ulimit -n 4096, or LimitNOFILE of the service", "this process may open %d files, and every client and process of a backend needs some; want %d", limit, enough)
		return
	}
	d.add("descriptors", ok, "", "%d files may be open", limit)
}

// ownPort checks whether the port for operators, at which no endpoint answers, is free.
func (d *doctor) ownPort() {
	host, port, err := net.SplitHostPort(d.cfg.Admin.Listen)
	if n, wrong := strconv.Atoi(port); err != nil || wrong != nil || n == 0 {
		return // not configured, or any free port
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), 2*time.Second)
	if err != nil {
		d.add("port", ok, "", "%s (admin.listen) is free", d.cfg.Admin.Listen)
		return
	}
	_ = conn.Close()
	d.add("port", fail, "choose another address with admin.listen, or end the program that has it", "%s (admin.listen) is taken by another program", d.cfg.Admin.Listen)
}
