package script

import "github.com/vmcp-dev/vmcp/script/journal"

// Engine is the version of what builtins mean. It is raised when one of them does something else
// with the same journal; a run goes on with the engine that it began with, or not at all.
const Engine = 1

// What a run works over is defined in package journal.
type (
	// Journal remembers what the effects of a run returned.
	Journal = journal.Journal
	// Header names the run that a journal belongs to, and what it goes on with.
	Header = journal.Header
	// Entry is one effect in a journal.
	Entry = journal.Entry
	// A JournalError says that the journal of a run could not be written.
	JournalError = journal.Error
)
