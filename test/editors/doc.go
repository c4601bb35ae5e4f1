// Package editors tests vmcp lsp with the client library of Visual Studio Code,
// vscode-languageserver-protocol of npm.
//
// It needs npm, and the network the first time: go test -tags npm ./test/editors
package editors
