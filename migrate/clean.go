package migrate

import "github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"

// clean writes scripts the way a person would have.
type clean struct{ *emitter }

func (c *clean) write() error                                 { c.code.line("return None"); return nil }
func (c *clean) params([]string) (gotmpl.Expr, int)           { return gotmpl.None, 1 }
func (c *clean) stepField(*step, []string) (gotmpl.Expr, int) { return gotmpl.None, 2 }
func (c *clean) nothing() gotmpl.Expr                         { return gotmpl.None }
func (c *clean) timestamp() gotmpl.Expr                       { return gotmpl.None }
