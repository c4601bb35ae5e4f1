package policy

import (
	"math"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	publicast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
)

// Possible: whether there are arguments with which a principal may use an entry. Lists are filtered by it.
//
// All but the arguments is known, so each policy is reduced to its conditions on arguments, in
// which the known parts are replaced by their values. If these are comparisons of single
// arguments with known values, joined by &&, ||, ! and if, then they distinguish finitely many
// kinds of values of an argument (absent, a number below, at or above each constant, a string for
// each combination of matching patterns, …). One value of each kind is tried, in all
// combinations, on the conditions: the answer is exact. With too many combinations, and for other
// conditions (arithmetic, two arguments compared, members of arguments), the entry counts as
// possible: the call itself is decided exactly.

// maxTries bounds the combinations of arguments that are tried.
const maxTries = 4096

// Possible decides whether there are arguments with which p may use e: Allow, StepUp or Invisible.
func (s *Set) Possible(p *Principal, e *Entry) Decision {
	g := &s.byKind[e.kind]
	if d := s.possible(g, p, e); d.Outcome == Allow {
		return d
	}
	for _, c := range g.stepUps {
		more := p.with(s, c)
		if more == p {
			continue
		}
		if d := s.possible(g, more, e); d.Outcome == Allow {
			return Decision{Outcome: StepUp, Policies: d.Policies, Scopes: c.scopes, Open: d.Open}
		}
	}
	return Decision{Outcome: Invisible}
}

// possible is Possible for the scopes of p: Allow or Invisible.
func (s *Set) possible(g *group, p *Principal, e *Entry) Decision {
	if !s.ReadsArguments(e.kind) {
		none, _ := g.args.values(nil) // cannot fail: no arguments are read
		d := s.ask(g, p, e, p.context(none))
		if d.Outcome != Allow {
			d.Outcome = Invisible
		}
		return d
	}
	var o open
	w := world{set: s, p: p, e: e}
	if e.contested {
		w.exposed = true
		if !o.add(&w, g.forbids) {
			return Decision{Outcome: Invisible}
		}
		w.exposed = false
	}
	switch {
	case !o.add(&w, g.all), len(o.permits) == 0 && !o.permitted:
		return Decision{Outcome: Invisible}
	case o.permitted && len(o.forbids) == 0:
		return Decision{Outcome: Allow, Policies: o.names}
	case !o.satisfiable(s):
		return Decision{Outcome: Invisible}
	}
	for _, c := range o.permits {
		o.names = append(o.names, c.id)
	}
	for _, c := range o.forbids {
		o.names = append(o.names, c.id)
	}
	return Decision{Outcome: Allow, Policies: o.names, Open: true}
}

// condition is the reduced condition of a policy.
type condition struct {
	id   string
	node ast.IsNode
}

// open is the policies that decide on an entry, reduced to conditions on the unknown arguments.
type open struct {
	permitted        bool // by a policy that does not depend on arguments
	permits, forbids []condition
	names            []string // of the policies of permitted
}

// add reduces and sorts the policies that may apply. It is false if one denies for all arguments.
func (o *open) add(w *world, policies ordered) bool {
	context := w.p.record
	_, why := cedar.Authorize(probing(policies), w, w.request(context))
	for _, e := range why.Errors {
		w.set.report(string(e.PolicyID), e.Message)
		if policies.find(e.PolicyID).forbid {
			return false
		}
	}
	env := eval.Env{Entities: w, Principal: w.p.entity.UID, Action: actionUIDs[w.e.kind], Resource: w.entry().UID, Context: context}
	for _, r := range why.Reasons {
		c := policies.find(r.PolicyID)
		left := reduced{truth: yes}
		if c.rest != nil {
			left = reduce(env, c.rest).condition()
		}
		switch {
		case c.forbid && left.truth == maybe:
			o.forbids = append(o.forbids, condition{c.id, left.node})
		case c.forbid && left.truth != no:
			return false
		case c.forbid:
		case left.truth == yes:
			o.permitted = true
			o.names = append(o.names, c.id)
		case left.truth == maybe:
			o.permits = append(o.permits, condition{c.id, left.node})
		}
	}
	return true
}

// truth is the known value of a condition.
type truth uint8

const (
	maybe truth = iota
	yes
	no
	fails // its evaluation is an error
	other // a value that is not a boolean
)

// reduced is an expression whose known parts have been evaluated.
type reduced struct {
	truth truth
	value types.Value // of yes, no and other
	node  ast.IsNode  // of maybe
}

// condition returns r for a place where a boolean is required.
func (r reduced) condition() reduced {
	if r.truth == other {
		r.truth = fails
	}
	return r
}

// asNode returns r as an expression.
func (r reduced) asNode() ast.IsNode {
	switch r.truth {
	case maybe:
		return r.node
	case fails:
		return failing
	}
	return ast.NodeValue{Value: r.value}
}

// failing is an expression that cannot be evaluated.
var failing = ast.Not(ast.String("")).AsIsNode()

// reduce evaluates the known parts of an expression.
func reduce(env eval.Env, n ast.IsNode) reduced {
	if !readsArguments(n) {
		return known(eval.Eval(n, env))
	}
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		return junction(env, n.Left, n.Right, no, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeAnd{BinaryNode: b} })
	case ast.NodeTypeOr:
		return junction(env, n.Left, n.Right, yes, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeOr{BinaryNode: b} })
	case ast.NodeTypeNot:
		r := reduce(env, n.Arg).condition()
		switch r.truth {
		case yes:
			return reduced{truth: no, value: types.False}
		case no:
			return reduced{truth: yes, value: types.True}
		case maybe:
			return reduced{node: ast.NodeTypeNot{UnaryNode: ast.UnaryNode{Arg: r.node}}}
		}
		return r
	case ast.NodeTypeIfThenElse:
		r := reduce(env, n.If).condition()
		switch r.truth {
		case yes:
			return reduce(env, n.Then)
		case no:
			return reduce(env, n.Else)
		case maybe:
			return reduced{node: ast.NodeTypeIfThenElse{If: r.node, Then: reduce(env, n.Then).asNode(), Else: reduce(env, n.Else).asNode()}}
		}
		return r
	}
	if op, left, right, ok := operator(n); ok {
		l, r := reduce(env, left), reduce(env, right)
		if l.truth == fails || r.truth == fails {
			return reduced{truth: fails}
		}
		return reduced{node: op(l.asNode(), r.asNode())}
	}
	return reduced{node: n}
}

func known(v types.Value, err error) reduced {
	switch {
	case err != nil:
		return reduced{truth: fails}
	case v == types.True:
		return reduced{truth: yes, value: v}
	case v == types.False:
		return reduced{truth: no, value: v}
	}
	return reduced{truth: other, value: v}
}

// junction reduces an && or an ||; decisive is the left value that decides it: no or yes.
func junction(env eval.Env, left, right ast.IsNode, decisive truth, make func(ast.BinaryNode) ast.IsNode) reduced {
	l := reduce(env, left).condition()
	switch l.truth {
	case decisive, fails:
		return l
	case maybe:
		return reduced{node: make(ast.BinaryNode{Left: l.node, Right: reduce(env, right).asNode()})}
	}
	return reduce(env, right).condition()
}

// operator returns the operands of an operator that always evaluates both, and a function that applies it to
// others.
func operator(n ast.IsNode) (op func(l, r ast.IsNode) ast.IsNode, left, right ast.IsNode, ok bool) {
	pair := func(l, r ast.IsNode) ast.BinaryNode { return ast.BinaryNode{Left: l, Right: r} }
	var b ast.BinaryNode
	switch n := n.(type) {
	case ast.NodeTypeEquals:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeEquals{BinaryNode: pair(l, r)} }
	case ast.NodeTypeNotEquals:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeNotEquals{BinaryNode: pair(l, r)} }
	case ast.NodeTypeLessThan:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeLessThan{BinaryNode: pair(l, r)} }
	case ast.NodeTypeLessThanOrEqual:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeLessThanOrEqual{BinaryNode: pair(l, r)} }
	case ast.NodeTypeGreaterThan:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeGreaterThan{BinaryNode: pair(l, r)} }
	case ast.NodeTypeGreaterThanOrEqual:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeGreaterThanOrEqual{BinaryNode: pair(l, r)} }
	case ast.NodeTypeContains:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeContains{BinaryNode: pair(l, r)} }
	case ast.NodeTypeContainsAll:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeContainsAll{BinaryNode: pair(l, r)} }
	case ast.NodeTypeContainsAny:
		b, op = n.BinaryNode, func(l, r ast.IsNode) ast.IsNode { return ast.NodeTypeContainsAny{BinaryNode: pair(l, r)} }
	default:
		return nil, nil, nil, false
	}
	return op, b.Left, b.Right, true
}

// satisfiable reports whether there are arguments for which a permit applies, no forbid does
// and none fails; true, too, where that cannot be decided.
func (o *open) satisfiable(s *Set) bool {
	key := o.key()
	if answer, ok := s.known.Load(key); ok {
		return answer.(bool)
	}
	answer := o.search()
	if s.kept.Add(1) <= maxKnown {
		s.known.Store(key, answer)
	}
	return answer
}

// maxKnown bounds the cached answers: most entries and principals leave the same open
// conditions.
const maxKnown = 10_000

func (o *open) key() string {
	var b strings.Builder
	if o.permitted {
		b.WriteByte('+')
	}
	for _, list := range [][]condition{o.permits, o.forbids} {
		for _, c := range list {
			b.Write((*publicast.Policy)(ast.Permit().When(ast.NewNode(c.node))).MarshalCedar())
		}
		b.WriteByte('!')
	}
	return b.String()
}

// search tries all combinations of sample arguments.
func (o *open) search() bool {
	k := knowledge{}
	for _, list := range [][]condition{o.permits, o.forbids} {
		for _, c := range list {
			if !k.learn(c.node) {
				return true
			}
		}
	}
	names, samples, ok := k.samples()
	if !ok {
		return true
	}
	args := map[string]argument{}
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(names) {
			return o.allows(k.uses.context(args))
		}
		for _, sample := range samples[i] {
			delete(args, names[i])
			if sample.value != nil {
				args[names[i]] = sample
			}
			if try(i + 1) {
				return true
			}
		}
		return false
	}
	return try(0)
}

// allows evaluates the open conditions in a context.
func (o *open) allows(context cedar.RecordMap) bool {
	env := eval.Env{Entities: types.EntityMap{}, Context: cedar.NewRecord(context)}
	for _, c := range o.forbids {
		if v, err := eval.Eval(c.node, env); err != nil || v != types.False {
			return false
		}
	}
	return o.permitted || slices.ContainsFunc(o.permits, func(c condition) bool {
		v, err := eval.Eval(c.node, env)
		return err == nil && v == types.True
	})
}

// knowledge is the values that conditions distinguish, for each argument.
type knowledge struct {
	uses argUses
	args map[string]*distinctions
}

// distinctions are the values that an argument is compared with.
type distinctions struct {
	globs   []glob // strings are patterns without a *
	numbers []int64
	others  []types.Value // lists and records
	members []types.Value // of contains, containsAll and containsAny
}

// learn records the values that a condition distinguishes. It is false for unsupported conditions.
func (k *knowledge) learn(n ast.IsNode) bool {
	if _, name, ok := k.argument(n); ok {
		k.of(name)
		return true
	}
	switch n := n.(type) {
	case ast.NodeValue:
		return true
	case ast.NodeTypeAnd:
		return k.learn(n.Left) && k.learn(n.Right)
	case ast.NodeTypeOr:
		return k.learn(n.Left) && k.learn(n.Right)
	case ast.NodeTypeNot:
		return k.learn(n.Arg)
	case ast.NodeTypeIfThenElse:
		return k.learn(n.If) && k.learn(n.Then) && k.learn(n.Else)
	case ast.NodeTypeHas:
		return k.learnHas(n)
	case ast.NodeTypeLike:
		_, name, ok := k.argument(n.Arg)
		if ok {
			k.of(name).globs = append(k.of(name).globs, globOf(n.Value))
		}
		return ok
	case ast.NodeTypeIsEmpty:
		_, name, ok := k.argument(n.Arg)
		if ok {
			k.of(name)
		}
		return ok
	case ast.NodeTypeContains:
		return k.learnMember(n.BinaryNode, false)
	case ast.NodeTypeContainsAll:
		return k.learnMember(n.BinaryNode, true)
	case ast.NodeTypeContainsAny:
		return k.learnMember(n.BinaryNode, true)
	}
	if _, left, right, ok := operator(n); ok {
		return k.learnComparison(left, right) || k.learnComparison(right, left)
	}
	return false
}

// argument returns the name of the argument that an expression reads; key is the attribute of
// the context, or "" for context.arguments.
func (k *knowledge) argument(n ast.IsNode) (key, name string, ok bool) {
	access, ok := n.(ast.NodeTypeAccess)
	if !ok {
		return "", "", false
	}
	return k.reading(access.Arg, string(access.Value))
}

// reading returns the argument that an attribute of the context or of context.arguments stands for.
func (k *knowledge) reading(of ast.IsNode, attribute string) (key, name string, ok bool) {
	if isContext(of) {
		name, ok = strings.CutPrefix(attribute, "arg_")
		if ok {
			k.uses.note(attribute)
			if composite, ok := strings.CutSuffix(name, presence); ok {
				k.of(composite)
			}
		}
		return attribute, name, ok
	}
	if access, is := of.(ast.NodeTypeAccess); is && isContext(access.Arg) && access.Value == "arguments" {
		k.uses.record = true
		return "", attribute, true
	}
	return "", "", false
}

func isContext(n ast.IsNode) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == "context"
}

func (k *knowledge) of(name string) *distinctions {
	if k.args == nil {
		k.args = map[string]*distinctions{}
	}
	if k.args[name] == nil {
		k.args[name] = &distinctions{}
	}
	return k.args[name]
}

func (k *knowledge) learnHas(n ast.NodeTypeHas) bool {
	if isContext(n.Arg) && n.Value == "arguments" {
		k.uses.record = true
		return true
	}
	_, name, ok := k.reading(n.Arg, string(n.Value))
	if ok {
		k.of(name)
	}
	return ok
}

func (k *knowledge) learnComparison(arg, value ast.IsNode) bool {
	v, known := value.(ast.NodeValue)
	_, name, ok := k.argument(arg)
	if known && ok {
		k.of(name).note(v.Value)
	}
	return known && ok
}

// learnMember records a test for members: a known list tested for an argument, or an
// argument tested for known values.
func (k *knowledge) learnMember(n ast.BinaryNode, lists bool) bool {
	arg, value, asked := n.Left, n.Right, true
	v, known := value.(ast.NodeValue)
	if !known {
		arg, value, asked = n.Right, n.Left, lists
		v, known = value.(ast.NodeValue)
	}
	_, name, ok := k.argument(arg)
	if !known || !ok {
		return false
	}
	elements := []types.Value{v.Value}
	if set, is := v.Value.(types.Set); is && (lists || !asked) {
		elements = set.Slice()
	}
	d := k.of(name)
	for _, e := range elements {
		if asked {
			d.members = append(d.members, e)
		} else {
			d.note(e)
		}
	}
	return true
}

func (d *distinctions) note(v types.Value) {
	switch v := v.(type) {
	case types.String:
		d.globs = append(d.globs, exactly(string(v)))
	case types.Long:
		d.numbers = append(d.numbers, int64(v))
	case types.Boolean:
	default:
		d.others = append(d.others, v)
	}
}

// samples returns for each argument one value of each kind that the conditions distinguish; ok
// is false when there are too many combinations.
func (k *knowledge) samples() (names []string, samples [][]argument, ok bool) {
	tries := 1
	for name := range k.args {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list, ok := k.args[name].samples()
		if tries *= len(list); !ok || tries > maxTries {
			return nil, nil, false
		}
		samples = append(samples, list)
	}
	return names, samples, true
}

func (d *distinctions) samples() (list []argument, ok bool) {
	texts, ok := distinguish(d.globs)
	if !ok || len(d.members) > 6 {
		return nil, false
	}
	scalar := func(v types.Value) { list = append(list, argument{v, true}) }
	for _, t := range texts {
		scalar(types.String(t))
	}
	for _, n := range append(d.numbers, 0) {
		scalar(types.Long(n))
		if n > math.MinInt64 {
			scalar(types.Long(n - 1))
		}
		if n < math.MaxInt64 {
			scalar(types.Long(n + 1))
		}
	}
	scalar(types.True)
	scalar(types.False)
	list = append(list, argument{types.NewRecord(nil), false}, argument{types.NewRecord(types.RecordMap{"\x00": types.True}), false})
	for subset := range 1 << len(d.members) {
		var members []types.Value
		for i, m := range d.members {
			if subset&(1<<i) != 0 {
				members = append(members, m)
			}
		}
		list = append(list, argument{types.NewSet(members...), false},
			argument{types.NewSet(append(members, types.String("\x00"))...), false})
	}
	for _, v := range d.others {
		if reachable(v) {
			list = append(list, argument{v, false})
		}
	}
	return append(list, argument{}), true
}

// reachable reports whether a JSON argument can have that value.
func reachable(v types.Value) bool {
	switch v := v.(type) {
	case types.Set:
		for e := range v.All() {
			if !reachable(e) {
				return false
			}
		}
		return true
	case types.Record:
		for e := range v.Values() {
			if !reachable(e) {
				return false
			}
		}
		return true
	case types.String, types.Long, types.Boolean:
		return true
	}
	return false
}
