// Package display prepares texts of others for a person: it cuts what is too long (clip.go), shows invisible characters
// (visible.go), and finds the name that was meant (spell.go).
package display
