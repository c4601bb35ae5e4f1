package object

// The types of conditions.
const (
	// Accepted says whether spec and references are good; every kind has it.
	Accepted = "Accepted"
	// ScriptsValid says whether the scripts compile; servers, scripted and composite tools have it.
	ScriptsValid = "ScriptsValid"
	// BackendsReady says whether the backends answer; servers have it.
	BackendsReady = "BackendsReady"
	// Translated says whether all of another product's object is carried; servers with from have it.
	Translated = "Translated"
	// Ready says whether this generation is what is served; every kind has it.
	Ready = "Ready"
)

// The reasons of conditions.
const (
	ReasonAccepted       = "Accepted"
	ReasonInvalid        = "Invalid"
	ReasonRefNotFound    = "RefNotFound"
	ReasonNameConflict   = "NameConflict"
	ReasonInvalidSecret  = "InvalidSecret"
	ReasonAuthNotCarried = "AuthNotCarried"
	ReasonNotAllowed     = "NotAllowed"

	ReasonCompiled      = "Compiled"
	ReasonCompileFailed = "CompileFailed"

	ReasonAllReady        = "AllReady"
	ReasonSomeUnavailable = "SomeUnavailable"
	ReasonNoneAvailable   = "NoneAvailable"

	ReasonComplete      = "Complete"
	ReasonFieldsIgnored = "FieldsIgnored"

	ReasonServed         = "Served"
	ReasonLastGoodServed = "LastGoodServed"
	ReasonNotServed      = "NotServed"
	ReasonNotReferenced  = "NotReferenced"
	ReasonUnavailable    = "Unavailable"
)

// The status of a condition.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// MaxMessage bounds the message of a condition, in bytes: the API server takes no more.
const MaxMessage = 32 << 10

// Status is what became of an object. Nothing in it moves by itself.
type Status struct {
	// ObservedGeneration is the generation that the conditions are about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty" crd:"yes"`
	// AppliedGeneration is the generation that is served; absent if none ever was.
	AppliedGeneration int64 `json:"appliedGeneration,omitempty" crd:"yes"`
	// Path is where a server is reached, such as /ops/mcp.
	Path string `json:"path,omitempty" crd:"yes"`
	// Conditions are what is so and what is not.
	Conditions []Condition `json:"conditions,omitempty" crd:"yes"`
}

// Condition is one thing that is so or not.
type Condition struct {
	// Type is what it is about.
	Type string `json:"type" crd:"yes" max:"316"`
	// Status is True, False or Unknown.
	Status string `json:"status" crd:"yes" enum:"True,False,Unknown"`
	// Reason is why, in one word.
	Reason string `json:"reason" crd:"yes" max:"1024"`
	// Message is why, for people.
	Message string `json:"message" crd:"yes" max:"32768"`
	// ObservedGeneration is the generation of the object that it is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty" crd:"yes"`
	// LastTransitionTime is when Status became what it is, as RFC 3339 writes it.
	LastTransitionTime string `json:"lastTransitionTime" crd:"yes"`
}

// Condition returns the condition of a type; the zero Condition if there is none.
func (s *Status) Condition(kind string) Condition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{}
}

// Ref names one object, for a status or a message.
type Ref struct {
	Kind       Kind
	Namespace  string
	Name       string
	UID        string
	Generation int64
}

// String is the kind and the name.
func (r Ref) String() string { return r.Kind.Name + " " + r.Name }

// Ref names the object of a kind that m belongs to.
func (m *Meta) Ref(kind Kind) Ref { return Ref{kind, m.Namespace, m.Name, m.UID, m.Generation} }
