package conn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Bounds of one list: pages, entries, and bytes of all pages. A longer list is cut off.
const (
	maxPages = 1000
	maxItems = 100_000
	maxBytes = 32 << 20
)

// Reader reads lists on one connection.
type Reader struct {
	// Ask makes one request and returns its result, which the Reader keeps.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Lost reports whether an error of Ask means that the connection is lost.
	Lost         func(err error) bool
	Capabilities json.RawMessage // of the server
	Log          *slog.Logger
}

// Refresh reads the lists in bits into o. Only the loss of the connection is an error: a list that
// the backend refuses keeps its content.
func (r *Reader) Refresh(ctx context.Context, o *Offer, bits Bits) error {
	for _, l := range lists {
		if bits&l.bit == 0 {
			continue
		}
		items, meta := l.of(o)
		if !wire.Declares(r.Capabilities, l.capability) {
			*items, *meta = nil, Meta{}
			continue
		}
		fetched, fetchedMeta, err := r.list(ctx, l)
		var answer *wire.Error
		switch {
		case err == nil:
			*items, *meta = fetched, fetchedMeta
		case errors.As(err, &answer) && answer.Code == wire.MethodNotFound && l.method == wire.TemplatesList:
			*items, *meta = nil, Meta{} // many backends have resources and no templates
		case r.Lost(err):
			return err
		default:
			meta.Incomplete = answer == nil || answer.Code != wire.MethodNotFound
			r.Log.Warn("list not available", "method", l.method, "err", err)
		}
	}
	return nil
}

// list reads all pages of one list.
func (r *Reader) list(ctx context.Context, l list) ([]Item, Meta, error) {
	var items []Item
	var meta Meta
	seen := map[string]bool{}
	var params json.RawMessage
	size := 0
	for range maxPages {
		result, err := r.Ask(ctx, l.method, params)
		if err != nil {
			return nil, meta, err
		}
		size += len(result)
		meta.merge(result)
		jsonscan.Elements(jsonscan.Get(result, l.member), func(v []byte) bool {
			items = append(items, Item{Name: jsonscan.GetString(v, l.key), Raw: v[:len(v):len(v)]})
			return len(items) < maxItems
		})
		cursor := jsonscan.Get(result, "nextCursor")
		if jsonscan.Text(cursor) == "" {
			return items, meta, nil
		}
		if seen[string(cursor)] || len(items) >= maxItems || size >= maxBytes {
			break
		}
		seen[string(cursor)] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	meta.Incomplete = true
	r.Log.Warn("list cut off: it repeats its cursor or is too long", "method", l.method, "entries", len(items), "bytes", size)
	return items, meta, nil
}

// Offer reads all lists. Items that are equal in base share its memory; size is the bytes of all
// others. If all lists are equal, offer is base.
func (r *Reader) Offer(ctx context.Context, base *Offer) (offer *Offer, size int64, err error) {
	next, differs := *base, false
	for _, l := range lists {
		if !wire.Declares(r.Capabilities, l.capability) {
			continue
		}
		fetched, meta, err := r.list(ctx, l)
		var answer *wire.Error
		if errors.As(err, &answer) {
			continue // refused: as in base
		}
		if err != nil {
			return nil, 0, err
		}
		items, itemsMeta := l.of(&next)
		bytes, same := intern(fetched, *items)
		size += bytes
		if !same {
			*items, *itemsMeta, differs = fetched, meta, true
		}
	}
	if !differs {
		return base, 0, nil
	}
	return &next, size, nil
}

// intern makes items that are equal in base share its memory. It returns the bytes of the
// others, and whether the lists are equal.
func intern(items, base []Item) (bytes int64, same bool) {
	known := make(map[string]Item, len(base))
	for _, it := range base {
		known[it.Name] = it
	}
	same = len(items) == len(base)
	for i, it := range items {
		if k, ok := known[it.Name]; ok && string(k.Raw) == string(it.Raw) {
			items[i] = k
		} else {
			// A copy, so that the page is not kept in memory for it.
			items[i].Raw = append([]byte(nil), it.Raw...)
			bytes += int64(len(it.Raw) + len(it.Name))
			same = false
			continue
		}
		same = same && base[i].Name == it.Name
	}
	return bytes, same
}
