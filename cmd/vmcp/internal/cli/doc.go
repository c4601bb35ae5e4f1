// Package cli is common to the commands: usage errors and exit codes (usage.go), output as JSON and its generated reference
// (jsonform.go), problems (report.go), where an endpoint is (locate.go, discovery.go), folders of the user (places.go), the
// browser of a login (browser.go), and the version (release.go).
package cli
