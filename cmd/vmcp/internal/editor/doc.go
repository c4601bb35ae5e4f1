// Package editor is vmcp in an editor and at a prompt: the language server (lsp.go, lsp_*.go), vmcp repl (repl.go,
// repl_*.go), and the completion that both use (cursor.go).
package editor
