// Package replicas is what a configuration says of several processes that serve one endpoint over one database.
package replicas

import (
	"net"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Cluster makes processes with one sessionStorage serve as one endpoint behind any load balancer. It needs provider postgres.
type Cluster struct {
	// Listen is the address, host:port, where the other processes reach this one. It is a port of its own, which clients do not need to reach. ${NAME} is replaced from the environment, $${ stays ${.
	Listen string `json:"listen,omitempty"`
	// Advertise is the address that the others dial. Without it: listen, which needs a host then. ${NAME} is replaced from the environment, $${ stays ${.
	Advertise string `json:"advertise,omitempty"`
	// Heartbeat is how often a process says that it is alive. One that is silent for three of these is gone for the others.
	Heartbeat limits.Duration `json:"heartbeat,omitempty" default:"2s"`
	// ForwardTimeout is how long another process may take to be reached and to show that it is alive. It does not bound its answer.
	ForwardTimeout limits.Duration `json:"forwardTimeout,omitempty" default:"2s"`
	// TLS makes the processes show certificates to each other.
	TLS PeerTLS `json:"tls,omitempty"`
}

// PeerTLS makes the processes show certificates to each other. All three files are needed; they are read again when they change.
type PeerTLS struct {
	// Cert is a file with the certificate of this process, for the host of advertise, in PEM, relative to the configuration file.
	Cert string `json:"cert,omitempty"`
	// Key is the file with the certificate's private key.
	Key string `json:"key,omitempty"`
	// CA is a file with the certificates that those of the others are checked against.
	CA string `json:"ca,omitempty"`
}

// On reports whether there is a cluster.
func (c *Cluster) On() bool { return c.Listen != "" }

// written is what a configuration without cluster has there when it is written out whole.
var written = Cluster{Heartbeat: limits.Duration(2 * time.Second), ForwardTimeout: limits.Duration(2 * time.Second)}

// minTime is the shortest heartbeat and forwardTimeout: a shorter one takes a busy process for a dead one.
const minTime = 100 * time.Millisecond

// A Checker is what Check needs of whoever reads the configuration.
type Checker struct {
	Report func(path, format string, args ...any)
	Set    func(path string) bool          // whether the file says anything there
	Expand func(path, text string) string  // puts variables in
	File   func(path string, name *string) // makes the name of a file absolute, which has to be there
	Listen func(path, addr string)         // checks host:port
	// Endpoint is the address of the endpoint, Postgres whether there is a database, which Broken hides.
	Endpoint string
	Postgres bool
}

// Check reports what is wrong with c, which stands at path.
func (c *Cluster) Check(path string, v Checker) {
	if !v.Set(path) || *c == written {
		return
	}
	c.Listen, c.Advertise = v.Expand(path+".listen", c.Listen), v.Expand(path+".advertise", c.Advertise)
	if c.Listen != "" {
		c.checkAddresses(path, v)
	}
	for _, t := range []struct {
		field string
		value limits.Duration
	}{{"heartbeat", c.Heartbeat}, {"forwardTimeout", c.ForwardTimeout}} {
		if v.Set(path+"."+t.field) && t.value.Std() < minTime {
			v.Report(path+"."+t.field, "want at least %s, have %s", limits.Duration(minTime), t.value)
		}
	}
	c.checkTLS(path+".tls", v)
	switch { // last: a problem of the whole hides those of its parts
	case !v.Postgres:
		v.Report(path, "needs sessionStorage.provider: postgres, which the replicas share; without it every process is alone")
	case c.Listen == "":
		v.Report(path, "want listen: where the other replicas reach this one, such as ${POD_IP}:4485")
	}
}

func (c *Cluster) checkAddresses(path string, v Checker) {
	v.Listen(path+".listen", c.Listen)
	if v.Set(path + ".advertise") {
		v.Listen(path+".advertise", c.Advertise)
	}
	if same(c.Listen, v.Endpoint) {
		v.Report(path+".listen", "%s is the address of the endpoint (listen): want a port of its own, such as %s", c.Listen, another(c.Listen))
		return
	}
	at := path + ".advertise"
	if c.Advertise == "" {
		at, c.Advertise = path+".listen", c.Listen
	}
	host, port, err := net.SplitHostPort(c.Advertise)
	if err != nil {
		return // reported
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || ip != nil && ip.IsUnspecified():
		v.Report(at, "the others need a host to dial, such as 10.0.0.7:4485; %q has none: set advertise", c.Advertise)
	case port == "0":
		v.Report(at, "the others need a port to dial, have %q: set advertise", c.Advertise)
	}
}

// same reports whether two addresses cannot both be listened on.
func same(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || every(hostA) || every(hostB)
}

// every reports whether a host stands for every interface.
func every(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// another is the address with the next port but one.
func another(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return net.JoinHostPort(host, strconv.Itoa(min(n+2, 65535)))
}

func (c *Cluster) checkTLS(path string, v Checker) {
	t := &c.TLS
	if *t == (PeerTLS{}) {
		return
	}
	for _, f := range []struct {
		name, what string
		value      *string
	}{{"cert", "the certificate of this process", &t.Cert}, {"key", "its private key", &t.Key}, {"ca", "what the certificates of the others are checked against", &t.CA}} {
		if *f.value == "" {
			defer v.Report(path, "want %s: %s; the replicas check each other", f.name, f.what)
			continue
		}
		v.File(path+"."+f.name, f.value)
	}
}
