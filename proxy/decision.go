package proxy

// A decision is what was decided about somebody's passage of the door, before anything was
// done. Where nothing decides, it is the zero decision. The audit writes it down.
type decision struct {
	verdict verdict
	policy  string // the names of the policies or rules that decided, with commas between them
}

// A verdict is what a decision came to.
type verdict uint8

const (
	notAsked verdict = iota // nothing had to decide
	allowed
	denied  // also what the asker is told is not there, and what more scopes would allow
	overdue // allowed, and more often than the quota has it
)

var verdictNames = [...]string{"", "allow", "deny", "quota"}

func (v verdict) String() string { return verdictNames[v] }

// Anonymous is the subject of who comes in without authentication.
const Anonymous = "anonymous"
