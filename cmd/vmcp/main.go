// Command vmcp serves many MCP servers as one, with scripted tools over them.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
