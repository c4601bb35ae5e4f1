// Package operate is what operators see of a running endpoint: the API below /api/v1 (admin.go), its events (events.go), the
// page (page.go), how both are reached (console.go), and the documents that they show (overview.go).
package operate
