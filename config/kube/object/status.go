package object

// The types of conditions.
const (
	// Accepted is whether spec and references are valid; every kind has it.
	Accepted = "Accepted"
	// ScriptsValid is whether the scripts compile; servers, scripted and composite tools have it.
	ScriptsValid = "ScriptsValid"
	// BackendsReady is whether the backends respond; servers have it.
	BackendsReady = "BackendsReady"
	// Translated is whether all fields of another product's object are supported; servers with from have it.
	Translated = "Translated"
	// Ready is whether this generation is served; every kind has it.
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

// MaxMessage bounds the message of a condition, in bytes: the API server refuses longer ones.
const MaxMessage = 32 << 10

// MaxSharedMessage bounds the messages of tools and entries, in bytes: they have some for each server.
const MaxSharedMessage = 2 << 10

// Status is the status of an object. It has nothing that changes by itself, such as ages.
type Status struct {
	// ObservedGeneration is the generation that the conditions refer to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty" crd:"yes"`
	// AppliedGeneration is the generation that is served; absent or 0 if none has been served.
	AppliedGeneration int64 `json:"appliedGeneration,omitempty" crd:"yes"`
	// Path is the URL path of a server, such as /ops/mcp.
	Path string `json:"path,omitempty" crd:"yes"`
	// Lease is the Lease whose holder writes the status of a server.
	Lease string `json:"lease,omitempty" crd:"yes" max:"253"`
	// Conditions are the conditions of the object. Of a tool or an entry each is the worst of those in servers.
	Conditions []Condition `json:"conditions,omitempty" crd:"yes"`
	// Servers are the VirtualMCPServers that use a tool or an entry, with the status of the object in each.
	Servers []ServerStatus `json:"servers,omitempty" crd:"yes"`
}

// ServerStatus is the status of a tool or an entry in one server.
type ServerStatus struct {
	// Name is the name of the VirtualMCPServer.
	Name string `json:"name" crd:"yes" max:"253"`
	// AppliedGeneration is the generation of the object that the server serves; absent if none has been served.
	AppliedGeneration int64 `json:"appliedGeneration,omitempty" crd:"yes"`
	// Conditions are the conditions of the object in the server.
	Conditions []Condition `json:"conditions,omitempty" crd:"yes"`
}

// Condition is one condition of an object.
type Condition struct {
	// Type is the type of the condition.
	Type string `json:"type" crd:"yes" max:"316"`
	// Status is True, False or Unknown.
	Status string `json:"status" crd:"yes" enum:"True,False,Unknown"`
	// Reason is the reason, in CamelCase.
	Reason string `json:"reason" crd:"yes" max:"1024"`
	// Message is the reason in words.
	Message string `json:"message" crd:"yes" max:"32768"`
	// ObservedGeneration is the generation of the object that it refers to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty" crd:"yes"`
	// LastTransitionTime is when Status changed last, in RFC 3339 format.
	LastTransitionTime string `json:"lastTransitionTime" crd:"yes"`
}

// Condition returns the condition of a type; the zero Condition if there is none.
func (s *Status) Condition(kind string) Condition { return conditionIn(s.Conditions, kind) }

// Condition returns the condition of a type; the zero Condition if there is none.
func (s *ServerStatus) Condition(kind string) Condition { return conditionIn(s.Conditions, kind) }

func conditionIn(all []Condition, kind string) Condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return Condition{}
}

// Server returns the status of the object in a server; nil if there is none.
func (s *Status) Server(name string) *ServerStatus {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return &s.Servers[i]
		}
	}
	return nil
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
