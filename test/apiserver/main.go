// Command apiserver is the API server of Kubernetes with an embedded etcd, for tests: one process,
// with all data in one folder, without controllers. It prints "ready" and its URL when it is ready, and ends
// with its standard input.
//
//	apiserver -dir DIR -port PORT
//
// DIR/admin.token is the token of an administrator, DIR/ca.crt the certificate to trust. Started
// again on the same folder it has the same objects and tokens.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	dir := flag.String("dir", "", "`folder` of all data")
	port := flag.Int("port", 0, "`port` to serve on, on 127.0.0.1 only")
	flag.Parse()
	if *dir == "" || *port == 0 {
		fmt.Fprintln(os.Stderr, "usage: apiserver -dir DIR -port PORT")
		os.Exit(2)
	}
	if err := run(*dir, *port); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

// run serves until standard input ends.
func run(dir string, port int) error {
	token, err := secrets(dir)
	if err != nil {
		return err
	}
	etcd, endpoint, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return err
	}
	defer etcd.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	command := app.NewAPIServerCommand()
	command.SetArgs(arguments(dir, port, endpoint))
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
		os.Exit(0) // a regular shutdown takes minutes
	}()
	if err := ready(ctx, dir, port, token, ended); err != nil {
		return err
	}
	fmt.Printf("ready https://127.0.0.1:%d\n", port)
	return <-ended
}

// arguments are the flags of kube-apiserver.
func arguments(dir string, port int, etcd string) []string {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + in("certs"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + in("sa.key"),
		"--service-account-signing-key-file=" + in("sa.key"),
		"--token-auth-file=" + in("tokens.csv"),
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none",
		"--watch-cache=true",
		"--v=0",
	}
}

// secrets creates the key of service accounts and the administrator's token, unless they exist.
func secrets(dir string) (token string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if text, err := os.ReadFile(filepath.Join(dir, "admin.token")); err == nil {
		return string(text), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	token = hex.EncodeToString(random)
	for name, text := range map[string]string{
		"sa.key":      string(block),
		"tokens.csv":  token + `,admin,admin,"system:masters"` + "\n",
		"admin.token": token,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return token, nil
}

// startEtcd starts an etcd of one member, without fsync.
func startEtcd(dir string) (*embed.Etcd, string, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "error"
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	client, err := freeURL()
	if err != nil {
		return nil, "", err
	}
	peer, err := freeURL()
	if err != nil {
		return nil, "", err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, client.String(), nil
	case err := <-e.Err():
		return nil, "", fmt.Errorf("etcd: %w", err)
	case <-time.After(time.Minute):
		e.Close()
		return nil, "", errors.New("etcd: not ready after a minute")
	}
}

func freeURL() (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}

// ready waits until the API server is ready, and copies the certificate to trust.
func ready(ctx context.Context, dir string, port int, token string, ended <-chan error) error {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // a server of this process
	request, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("https://127.0.0.1:%d/readyz", port), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("kube-apiserver ended: %w", err)
		case <-tick.C:
		}
		resp, err := client.Do(request)
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK && strings.TrimSpace(string(body)) == "ok" {
			break
		}
	}
	cert, err := os.ReadFile(filepath.Join(dir, "certs", "apiserver.crt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "ca.crt"), cert, 0o600)
}
