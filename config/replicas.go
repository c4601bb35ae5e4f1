package config

import (
	"net"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// This part of the package is the part of the configuration about several processes that serve one endpoint over one database.

// Cluster makes processes with one sessionStorage serve as one endpoint behind any load balancer. It needs provider postgres.
type Cluster struct {
	// Listen is the address, host:port, at which the other processes reach this one: a separate port, which clients need not reach. ${NAME} is replaced from the environment, $${ stays ${.
	Listen string `json:"listen,omitempty"`
	// Advertise is the address that the other processes dial. Default: listen, which must have a host then. ${NAME} is replaced from the environment, $${ stays ${.
	Advertise string `json:"advertise,omitempty"`
	// Heartbeat is the interval at which a process reports that it is alive. After three missed heartbeats the others consider it gone.
	Heartbeat limits.Duration `json:"heartbeat,omitempty" default:"2s"`
	// ForwardTimeout is the timeout for connecting to another process and for its first sign of life. It does not bound the response.
	ForwardTimeout limits.Duration `json:"forwardTimeout,omitempty" default:"2s"`
	// TLS is mutual TLS between the processes.
	TLS PeerTLS `json:"tls,omitempty"`
}

// PeerTLS is mutual TLS between the processes. All three files are required; they are reloaded when they change.
type PeerTLS struct {
	// Cert is a file with the certificate of this process, for the host of advertise, in PEM, relative to the configuration file.
	Cert string `json:"cert,omitempty"`
	// Key is the file with the certificate's private key.
	Key string `json:"key,omitempty"`
	// CA is a file with the CA certificates that the certificates of the others are verified with.
	CA string `json:"ca,omitempty"`
}

// On reports whether cluster is configured.
func (c *Cluster) On() bool { return c.Listen != "" }

// replicasWritten is the value of cluster in a configuration without one that is written with all defaults.
var replicasWritten = Cluster{Heartbeat: limits.Duration(2 * time.Second), ForwardTimeout: limits.Duration(2 * time.Second)}

// minTime is the shortest heartbeat and forwardTimeout: with a shorter one a busy process would be considered gone.
const minTime = 100 * time.Millisecond

// Check reports the problems of c, whose path is path. endpoint is the address of the endpoint; postgres reports whether
// runs are stored in PostgreSQL.
func (c *Cluster) Check(path, endpoint string, postgres bool, v *Validator) {
	if !v.Set(path) || *c == replicasWritten {
		return
	}
	c.Listen, c.Advertise = v.Address(path+".listen", c.Listen), v.Address(path+".advertise", c.Advertise)
	if c.Listen != "" {
		c.checkAddresses(path, endpoint, v)
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
	case !postgres:
		v.Report(path, "needs sessionStorage.provider: postgres, which the replicas share")
	case c.Listen == "":
		v.Report(path, "want listen: the address at which the other replicas reach this one, such as ${POD_IP}:4485")
	}
}

func (c *Cluster) checkAddresses(path, endpoint string, v *Validator) {
	if same(c.Listen, endpoint) {
		v.Report(path+".listen", "%s is the address of the endpoint (listen): want another port, such as %s", c.Listen, another(c.Listen))
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

// same reports whether two addresses conflict when listened on.
func same(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || every(hostA) || every(hostB)
}

// every reports whether a host means all interfaces.
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

func (c *Cluster) checkTLS(path string, v *Validator) {
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
		v.Existing(path+"."+f.name, f.value)
	}
}
