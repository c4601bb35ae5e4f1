package operate

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"strings"
)

//go:embed assets/page.css
var style []byte

//go:embed assets/page.js
var script []byte

//go:embed assets/icon.svg
var icon []byte

// An asset is served under a name with a hash of its content, so that it can be cached forever.
type asset struct {
	kind string
	text []byte
}

var assets = map[string]asset{}

var (
	stylePath  = add("page", "css", "text/css; charset=utf-8", style)
	scriptPath = add("page", "js", "text/javascript; charset=utf-8", script)
	iconPath   = add("icon", "svg", "image/svg+xml", icon)
)

func add(name, extension, kind string, text []byte) string {
	sum := sha256.Sum256(text)
	path := "/assets/" + name + "-" + hex.EncodeToString(sum[:8]) + "." + extension
	assets[path] = asset{kind, text}
	return path
}

// isAsset reports whether a path is an asset. Assets contain nothing about the endpoint and are public.
func isAsset(path string) bool { return path == "/favicon.ico" || strings.HasPrefix(path, "/assets/") }

// serveAsset serves a style, a script or the icon.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path == "/favicon.ico" {
		path = iconPath
	}
	a, ok := assets[path]
	secure(w.Header())
	if !ok {
		http.Error(w, "no such asset", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	if r.URL.Path == path {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(a.text) // the client may have disconnected
}
