package client

import "github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

// ResultForm is the end of the help of commands that print a result as it was sent.
var ResultForm = cli.Help(cli.JSONForm{Text: `{"content":[any],"structuredContent"?:any,"isError"?:boolean,"resultType"?,"_meta"?:any}`})
