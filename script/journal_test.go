package script_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/script"

	"github.com/vmcp-dev/vmcp/script/journaltest"
)

func TestMemory(t *testing.T) {
	journaltest.Test(t, func(*testing.T) script.Journal { return script.NewJournal() })
}
