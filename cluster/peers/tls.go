package peers

import (
	"crypto/tls"
	"log/slog"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/certs"
)

// A TLS has both sides of mutual TLS.
type TLS struct {
	server *tls.Config
	client func(host string) *tls.Config // to a peer with this name or address
}

// NewTLS reads a certificate, its key and the authorities of the other replicas, which are read again when the files change.
func NewTLS(cert, key, ca string, log *slog.Logger) (*TLS, error) {
	s, err := certs.NewServer(config.TLS{Cert: cert, Key: key, ClientCA: ca}, log)
	if err != nil {
		return nil, err
	}
	return &TLS{s.Config(), func(host string) *tls.Config {
		return certs.ForBackend(config.BackendTLS{CA: ca, Cert: cert, Key: key}, host, log).Config()
	}}, nil
}
