package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// nginxConfig configures a reverse proxy in one process, with keep-alive connections and without
// buffering. Its values: the folder for its files, its port, the backend's host.
const nginxConfig = `
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 100000000;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	upstream backend {
		server %[3]s;
		keepalive 256;
		keepalive_requests 100000000;
	}
	server {
		listen 127.0.0.1:%[2]d;
		location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_buffer_size 64k;
			proxy_buffers 8 64k;
			proxy_busy_buffers_size 128k;
		}
	}
}
`

// startNginx starts nginx in front of the backend at base; nil where it is not installed.
func startNginx(dir, base string) (*process, error) {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		if binary, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, nil
		}
	}
	port, err := rig.Port()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	config := fmt.Sprintf(nginxConfig, dir, port, strings.TrimPrefix(base, "http://"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p, err := start(exec.Command(binary, "-p", dir, "-c", file))
	if err != nil {
		return nil, err
	}
	go p.wait()
	p.base = fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := p.awaitHTTP(p.base+"/"+legacy+"/few/mcp", 2*time.Millisecond, func([]byte) bool { return true }); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
