package builtins

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// pager is the value of pages(tool, args={}, cursor="cursor", next="nextCursor", items="items", each=None): an
// iterable over the elements of all pages that a tool returns, or over what each returns for every page. Pages are
// fetched while it is iterated over.
type pager struct {
	run    *script.Run
	tool   string
	args   *starlark.Dict
	cursor string         // argument for the cursor
	next   []string       // path of the next cursor in a page
	items  []string       // path of the elements in a page; nil: the page is the element
	each   starlark.Value // called with these, in a separate run; nil: the elements themselves
}

func pages(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &pager{run: script.RunOf(t), cursor: "cursor"}
	next := "nextCursor"
	var arguments starlark.Value
	var items, each starlark.Value = starlark.String("items"), starlark.None
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "tool", &p.tool, "args?", &arguments,
		"cursor?", &p.cursor, "next?", &next, "items?", &items, "each?", &each); err != nil {
		return nil, err
	}
	var err error
	if p.args, err = copyArgs(arguments); err != nil {
		return nil, fmt.Errorf("pages(%q): args: %w", p.tool, err)
	}
	if each != starlark.None {
		if err := p.run.CheckAlone(each); err != nil {
			return nil, fmt.Errorf("pages(%q): each: %w", p.tool, err)
		}
		p.each = each
	}
	p.next = strings.Split(next, ".")
	switch items := items.(type) {
	case starlark.NoneType:
	case starlark.String:
		p.items = strings.Split(string(items), ".")
	default:
		return nil, fmt.Errorf("pages(%q): items: want a string or None, have %s", p.tool, items.Type())
	}
	return p, p.run.Charge(int64(p.args.Len()) * 128)
}

func copyArgs(v starlark.Value) (*starlark.Dict, error) {
	d := new(starlark.Dict)
	switch v := v.(type) {
	case nil, starlark.NoneType:
	case *starlark.Dict:
		for _, item := range v.Items() {
			if err := d.SetKey(item[0], item[1]); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("want a dict, have %s", v.Type())
	}
	return d, nil
}

func (p *pager) String() string        { return fmt.Sprintf("pages(%q)", p.tool) }
func (p *pager) Type() string          { return "pages" }
func (p *pager) Freeze()               {}
func (p *pager) Truth() starlark.Bool  { return starlark.True }
func (p *pager) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: pages") }

// Iterate starts with the first page, each time.
func (p *pager) Iterate() starlark.Iterator {
	args, _ := copyArgs(p.args) // the keys were hashable before
	return &pageIterator{pager: p, args: args}
}

// pageIterator fetches a page when the previous one is exhausted.
type pageIterator struct {
	*pager
	args *starlark.Dict
	page starlark.Iterator // nil: fetch
	last starlark.Value    // cursor of the page
	end  bool
}

// Next returns the next element. An iterator cannot return an error, so a failure stops the interpreter at its next
// step.
func (it *pageIterator) Next(p *starlark.Value) bool {
	for {
		if it.page != nil && it.page.Next(p) {
			return true
		}
		it.Done()
		if it.end {
			return false
		}
		t := it.run.Thread()
		if err := it.fetch(t); err != nil {
			it.end = true
			it.run.Stop(t, fmt.Errorf("pages(%q): %w", it.tool, err))
			return false
		}
	}
}

// Done releases the page.
func (it *pageIterator) Done() {
	if it.page != nil {
		it.page.Done()
		it.page = nil
	}
}

// fetch fetches the next page through Run.Do.
func (it *pageIterator) fetch(t *starlark.Thread) error {
	args, err := jsonObject(t, it.args)
	if err != nil {
		return err
	}
	c := &call{function: "pages", tool: it.tool, args: args, timeout: it.run.Limits().CallTimeout.Std()}
	if it.each != nil {
		return it.fetchEach(t, c)
	}
	page, err := c.do(t, false)
	if err != nil {
		return err
	}
	if err := it.advance(member(page, it.next)); err != nil {
		return err
	}
	items := page
	if it.items == nil {
		items = starlark.NewList([]starlark.Value{page})
	} else if items = member(page, it.items); items == nil {
		return fmt.Errorf("the page has no %q", strings.Join(it.items, "."))
	}
	if it.page = starlark.Iterate(items); it.page == nil {
		return fmt.Errorf("%q of the page: want a list, have %s", strings.Join(it.items, "."), items.Type())
	}
	return nil
}

// fetchEach fetches the next page and passes it to each. Only the result of each and the cursor are charged and
// recorded; the page is released when each has returned.
func (it *pageIterator) fetchEach(t *starlark.Thread, c *call) error {
	c.then = func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
		r, err := readResult(raw)
		if err != nil {
			return nil, err
		}
		items := r.structured
		if it.items != nil {
			items = jsonscan.GetPath(r.structured, it.items...)
		}
		if items == nil {
			return nil, notAResult(fmt.Errorf("the page has no %q", strings.Join(it.items, ".")))
		}
		value, err := it.run.CallAlone(ctx, it.each, items)
		if err != nil {
			return nil, err
		}
		next := jsonscan.GetPath(r.structured, it.next...)
		if next == nil {
			next = json.RawMessage("null")
		}
		return slices.Concat([]byte(`{"structuredContent":[`), value, []byte(","), next, []byte("]}")), nil
	}
	pair, err := c.do(t, false)
	if err != nil {
		return err
	}
	both := pair.(*starlark.List)
	it.page = starlark.NewList([]starlark.Value{both.Index(0)}).Iterate()
	return it.advance(both.Index(1))
}

// advance sets the cursor of the next page.
func (it *pageIterator) advance(cursor starlark.Value) error {
	switch cursor {
	case nil, starlark.None, starlark.String(""):
		it.end = true
		return nil
	}
	if it.last != nil {
		if same, err := starlark.Equal(cursor, it.last); err != nil || same {
			return fmt.Errorf("the page has the cursor %s that it was fetched with", cursor)
		}
	}
	it.last = cursor
	return it.args.SetKey(starlark.String(it.cursor), cursor)
}

// member follows a path through dicts; nil when there is nothing.
func member(v starlark.Value, path []string) starlark.Value {
	for _, name := range path {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil
		}
		if v, ok, _ = d.Get(starlark.String(name)); !ok {
			return nil
		}
	}
	return v
}
