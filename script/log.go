package script

import "github.com/vmcp-dev/vmcp/script/journal"

// Engine is the version of the builtins' behaviour. It is raised when one of them performs other effects over the same
// journal; a run is resumed only by the engine that began it.
const Engine = 1

// Defined in package journal.
type (
	// Journal stores what the effects of a run returned.
	Journal = journal.Journal
	// Header identifies the run that a journal belongs to.
	Header = journal.Header
	// Entry is one effect in a journal.
	Entry = journal.Entry
	// A JournalError says that the journal of a run could not be opened or written.
	JournalError = journal.Error
)
