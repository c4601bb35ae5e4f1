package main

// The reasons why a scenario that passes directly cannot pass through any proxy.
const (
	// The tools of these scenarios send requests to the client.
	noRequests = `2026-07-28, Basic, Messages: "Requests are sent from the client to the server"; in older revisions also "vice versa". ` +
		`The fixture's tool sends a request of its own and has no multi-round-trip form, so it fails for every client of this backend`
	// The fixture's tools of these scenarios return input requests, which its SDK turns
	// into requests of 2025-11-25 for the proxy.
	noKeys = `2025-11-25, Client Features, Elicitation, Sampling and Roots: the params of the requests have no key; ` +
		`the scenario wants the key that the fixture gave its input request`
	oneByOne = `2025-11-25, Client Features: each question is a request of its own, and the fixture sends the next ` +
		`when the last is answered; the scenario wants three in one result`
	oneRound = `2025-11-25 has no InputRequiredResult: to the proxy the fixture answers the second round with a final result ` +
		`that has the questions as unknown members; the scenario wants a second round`
)

// impossible lists the scenarios that cannot pass through a proxy by specification. A row whose scenario passes is
// reported as stale.
var impossible = []struct{ suite, backend, scenario, reason string }{
	{"0.1.16", "stateless", "tools-call-elicitation", noRequests},
	{"0.1.16", "stateless", "tools-call-sampling", noRequests},
	{"0.1.16", "stateless", "elicitation-sep1034-defaults", noRequests},
	{"0.1.16", "stateless", "elicitation-sep1330-enums", noRequests},
	{"2025-11-25", "stateless", "tools-call-elicitation", noRequests},
	{"2025-11-25", "stateless", "tools-call-sampling", noRequests},
	{"2025-11-25", "stateless", "elicitation-sep1034-defaults", noRequests},
	{"2025-11-25", "stateless", "elicitation-sep1330-enums", noRequests},
	{"2026-07-28", "http", "input-required-result-basic-elicitation", noKeys},
	{"2026-07-28", "http", "input-required-result-multiple-input-requests", oneByOne},
	{"2026-07-28", "http", "input-required-result-multi-round", oneRound},
}
