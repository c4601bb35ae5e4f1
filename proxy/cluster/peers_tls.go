package cluster

import (
	"crypto/tls"
	"log/slog"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
)

// A TLS has the configurations of both sides of mutual TLS.
type TLS struct {
	server *tls.Config
	client func(host string) *tls.Config // for dialling a peer by this name or address
}

// NewTLS reads a certificate, its key and the CA of the other replicas. Changed files are read again.
func NewTLS(cert, key, ca string, log *slog.Logger) (*TLS, error) {
	s, err := certs.NewServer(config.TLS{Cert: cert, Key: key, ClientCA: ca}, log)
	if err != nil {
		return nil, err
	}
	return &TLS{s.Config(), func(host string) *tls.Config {
		return certs.ForBackend(config.BackendTLS{CA: ca, Cert: cert, Key: key}, host, log).Config()
	}}, nil
}
