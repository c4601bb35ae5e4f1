package journal_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/journal"
)

func TestMemory(t *testing.T) {
	journal.Test(t, func(*testing.T) script.Journal { return journal.New() })
}
