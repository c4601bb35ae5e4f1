package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// Variants check that nothing depends on chance: on when the process ends, and on which of several answers arrives
// first. A variant fails when an assertion fails, when a tool's output differs, or when the effect at some position
// has another kind, name or arguments. Objects are compared without the order of their members, lists with it.
//
// Times may differ. A variant in which a script reads another time than in the plain run proves nothing, and its
// differences are not reported.

// variant describes how an attempt differs from the plain run. The zero value is the plain run.
type variant struct {
	stop string // ID of the effect at which the run is stopped
	hit  bool   // the effect was reached; guarded by scheduler.mu

	run   string // ID of the run whose branches are ordered
	perm  []int  // the rank of each branch
	turns bool   // branches alternate; otherwise one continues as far as it can
}

// ranking returns a comparison of effects by which is answered first; nil: the plain order.
func (v *variant) ranking(answered map[string]int) func(x, y *effect) int {
	if v.perm == nil {
		return nil
	}
	return func(x, y *effect) int {
		if !strings.HasPrefix(x.id, v.run) || !strings.HasPrefix(y.id, v.run) {
			return inTime(x, y)
		}
		if v.turns {
			if c := answered[branchOf(x.id)] - answered[branchOf(y.id)]; c != 0 {
				return c
			}
		}
		return compareIDs(v.ranked(x.id), v.ranked(y.id))
	}
}

var branchNumber = regexp.MustCompile(`\.b(\d+)\.`)

// ranked returns an ID with the ranks of branches in place of their numbers.
func (v *variant) ranked(id string) string {
	return branchNumber.ReplaceAllStringFunc(id, func(part string) string {
		n, err := strconv.Atoi(strings.Trim(part, ".b"))
		if err != nil || n >= len(v.perm) {
			return part
		}
		return ".b" + strconv.Itoa(v.perm[n]) + "."
	})
}

// variants runs the variants of a test that passed, within the budget, until one fails.
func (s *Suite) variants(ctx context.Context, plain *attempt, n *Variants) *Problem {
	if s.Cover != nil {
		s.Cover.Count(false)
		defer s.Cover.Count(true)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	for _, r := range plain.runs {
		for _, v := range plain.orders(r, s.Orders) {
			if ctx.Err() != nil {
				return nil
			}
			if p := s.vary(ctx, plain, v); p != nil {
				return p
			}
			n.Orders++
		}
	}
	if s.Replay {
		for _, id := range plain.stops() {
			if ctx.Err() != nil {
				return nil
			}
			if p := s.vary(ctx, plain, variant{stop: id}); p != nil {
				return p
			}
			n.Replay++
		}
	}
	return nil
}

// stops returns the effects at which the runs of a test can be stopped.
func (a *attempt) stops() (ids []string) {
	for id := range a.effects {
		if strings.Contains(id, "#") {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

// allOrders is the number of branches up to which every order is tried.
const allOrders = 4

// orders returns the orders of a run's branches, each alternating and with one branch after the other.
func (a *attempt) orders(r *toolRun, most int) (list []variant) {
	branches := 0
	for id := range a.effects {
		if strings.HasPrefix(id, r.id) {
			for _, m := range branchNumber.FindAllStringSubmatch(id, -1) {
				n, _ := strconv.Atoi(m[1])
				branches = max(branches, n+1)
			}
		}
	}
	if branches < 2 {
		return nil
	}
	for _, perm := range permutations(branches, most) {
		list = append(list, variant{run: r.id, perm: perm, turns: true}, variant{run: r.id, perm: perm})
	}
	return list
}

// permutations returns orders of n things: all of up to allOrders, otherwise as many as all of those would be, with a
// fixed seed. The first two are the plain order and the reverse.
func permutations(n, most int) (all [][]int) {
	first := make([]int, n)
	for i := range first {
		first[i] = i
	}
	reverse := slices.Clone(first)
	slices.Reverse(reverse)
	all = append(all, first, reverse)
	seen := map[string]bool{fmt.Sprint(first): true, fmt.Sprint(reverse): true}
	count := 24
	if n <= allOrders {
		count = [...]int{1, 1, 2, 6, 24}[n]
	}
	for r := rand.New(rand.NewPCG(1, 2)); len(all) < min(count, max(most, 2)); {
		if p := r.Perm(n); !seen[fmt.Sprint(p)] {
			seen[fmt.Sprint(p)] = true
			all = append(all, p)
		}
	}
	return all[:min(len(all), max(most, 0))]
}

// vary runs one variant, and returns how it differs from the plain run.
func (s *Suite) vary(ctx context.Context, plain *attempt, v variant) *Problem {
	a := s.newAttempt(plain.file, plain.name, v, plain)
	problem := a.run(ctx, time.Hour)
	if ctx.Err() != nil || a.timeDiffers() {
		return nil
	}
	code := codeReplay
	if v.perm != nil {
		code = codeOrder
	}
	if problem != nil {
		p := *problem
		p.Code, p.Variant = code, v.name(plain)
		p.Message = fmt.Sprintf("%s: %s", v.when(plain), problem.Message)
		return &p
	}
	return a.difference(code)
}

// timeDiffers reports whether a script has read another time than in the plain run.
func (a *attempt) timeDiffers() bool {
	for id, at := range a.nows {
		if other, ok := a.plain.nows[id]; ok && other != at {
			return true
		}
	}
	return false
}

// difference returns how a variant that passed differs from the plain run.
func (a *attempt) difference(code string) *Problem {
	v := &a.variant
	report := func(r *toolRun, format string, args ...any) *Problem {
		p := problemAt(code, a.file.place(r.at), fmt.Sprintf(format, args...))
		p.Variant = v.name(a.plain)
		return &p
	}
	for i, r := range a.plain.runs {
		if i >= len(a.runs) || a.runs[i].id != r.id {
			return report(r, "%s: %s is not run here", v.when(a.plain), r.tool)
		}
		if o := a.runs[i]; !sameJSON(r.out, o.out) {
			before, after := outputs(r.out, o.out)
			if code == codeOrder {
				return report(r, "the output depends on the order of branches: %s → %s, %s → %s", orderName(identity(len(v.perm)), true, v), before, orderName(v.perm, v.turns, v), after)
			}
			return report(r, "%s: the output differs: %s → %s", v.when(a.plain), before, after)
		}
		if text := a.effectsDiffer(r); text != "" {
			if code == codeOrder {
				return report(r, "the effects depend on the order of branches: %s → %s", orders(v), text)
			}
			return report(r, "%s: %s", v.when(a.plain), text)
		}
	}
	return nil
}

// orders names the two orders that are compared.
func orders(v *variant) string {
	return orderName(identity(len(v.perm)), true, v) + " and " + orderName(v.perm, v.turns, v)
}

// outputs formats what two runs returned, or how they failed.
func outputs(before, after string) (string, string) {
	show := func(out string) string {
		var r struct {
			Output json.RawMessage
			Error  *string
		}
		_ = json.Unmarshal([]byte(out), &r)
		if r.Error != nil {
			return "fails: " + strconv.Quote(display.Counted(*r.Error, 200))
		}
		return display.Counted(string(r.Output), 200)
	}
	return show(before), show(after)
}

// effectsDiffer describes the first effect of a run that differs; "" for none.
func (a *attempt) effectsDiffer(r *toolRun) string {
	ids := map[string]bool{}
	for _, all := range []map[string]seen{a.effects, a.plain.effects} {
		for id := range all {
			if strings.HasPrefix(id, r.id) {
				ids[id] = true
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(ids), compareIDs) {
		was, before := a.plain.effects[id]
		is, now := a.effects[id]
		key := strings.TrimPrefix(id, r.id)
		switch {
		case before && now && was.same(is):
		case before && now:
			return fmt.Sprintf("at %s (%s) %s instead of %s", key, is.pos, is, was)
		case before:
			return fmt.Sprintf("no %s at %s (%s)", was, key, was.pos)
		default:
			return fmt.Sprintf("also %s at %s (%s)", is, key, is.pos)
		}
	}
	return ""
}

// see records an effect. The caller holds a.mu.
func (a *attempt) see(e *effect) {
	is := seen{kind: e.Kind, name: e.Name, args: string(e.Args), pos: e.Pos.String()}
	if e.Kind == "retry" { // its args are why a call failed, and a random length
		is.args = ""
	}
	if was, twice := a.effects[e.id]; twice && !was.same(is) {
		is.name += " after " + was.String()
	}
	a.effects[e.id] = is
}

func (s seen) String() string {
	text := s.kind
	if s.name != "" {
		text += " " + s.name
	}
	if s.args != "" && s.args != "{}" && s.kind == "call" {
		text += " " + display.Counted(s.args, 120)
	}
	return text
}

// sameJSON compares JSON texts; numbers as they are written.
func sameJSON(x, y string) bool {
	if x == y {
		return true
	}
	a, okA := decoded(x)
	b, okB := decoded(y)
	return okA && okB && reflect.DeepEqual(a, b)
}

// decoded returns the values of a text of several JSON values.
func decoded(text string) (all []any, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for d.More() {
		var v any
		if d.Decode(&v) != nil {
			return nil, false
		}
		all = append(all, v)
	}
	return all, true
}

// name returns the name of a variant in reports.
func (v *variant) name(plain *attempt) string {
	if v.perm == nil {
		return "stopped at " + v.stop
	}
	return "order " + orderName(v.perm, v.turns, v)
}

// when describes a variant in messages.
func (v *variant) when(plain *attempt) string {
	if v.perm != nil {
		return "in the order " + orderName(v.perm, v.turns, v)
	}
	_, key, _ := strings.Cut(v.stop, "#")
	at := plain.effects[v.stop]
	return fmt.Sprintf("stopped at %s (%s, %s) and resumed", key, at, at.pos)
}

func identity(n int) (p []int) {
	for i := range n {
		p = append(p, i)
	}
	return p
}

// orderName names an order by its branches. If both orders have the same ranks, it adds how the branches alternate.
func orderName(perm []int, turns bool, v *variant) string {
	const most = 8
	names := make([]string, len(perm))
	for branch, rank := range perm {
		names[rank] = "b" + strconv.Itoa(branch)
	}
	if len(names) > most {
		names = append(names[:most], "…")
	}
	text := strings.Join(names, ",")
	if slices.IsSorted(v.perm) {
		text += map[bool]string{true: " in turns", false: " one after the other"}[turns]
	}
	return text
}
