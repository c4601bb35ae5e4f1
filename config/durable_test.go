package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDurable(t *testing.T) {
	c, err := parseFile(t, "testdata/good/durable.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, r := c.SessionStorage, c.Runs
	if want, _ := filepath.Abs("testdata/good/runs.db"); s.Path != want || s.Provider != StorageSQLite || s.Sync != "process" {
		t.Errorf("sessionStorage = %+v, want sqlite at %s", s, want)
	}
	if len(s.Keys) != 2 || len(s.Keys[0].Key) != 32 || string(s.Keys[1].Key) != "12345678901234567890123456789012" || !*s.Encrypt {
		t.Errorf("keys = %+v", s.Keys)
	}
	if *r.TrustHints || r.Hold.Std() != time.Millisecond || r.Retention.Done.Std() != 36*time.Hour || r.MaxBytes != 1<<20 {
		t.Errorf("runs = %+v", r)
	}
	if own := c.ScriptedTools[0]; own.Durable != "never" || own.OnDoubt != "wait" || own.OnDisconnect != "pause" || own.Limits.Lifetime.Std() != 60*24*time.Hour {
		t.Errorf("onboard = %+v", own)
	}
	if general := c.ScriptedTools[1]; general.Durable != "always" || general.OnDoubt != "fail" || general.OnDisconnect != "continue" || general.Limits.Lifetime.Std() != 48*time.Hour {
		t.Errorf("other = %+v", general)
	}
}

func TestDefaultsOfDurableRuns(t *testing.T) {
	c := Default()
	if c.SessionStorage.Provider != StorageMemory || !*c.Runs.TrustHints || c.Runs.Durable != "auto" || c.Runs.Hold.Std() != 45*time.Second ||
		c.Runs.Retention.Failed.Std() != 30*24*time.Hour || c.Limits.Lifetime.Std() != 30*24*time.Hour || c.Limits.ElicitTimeout.Std() != 10*time.Minute {
		t.Errorf("defaults: %+v %+v %+v", c.SessionStorage, c.Runs, c.Limits)
	}
}

// The environment selects the store of runs, and a file that was written for Redis is accepted unchanged.
func TestStorageURL(t *testing.T) {
	const toolhive = "sessionStorage: {provider: redis, address: 'redis:6379', db: 1, keyPrefix: x}\n"
	const key = "sessionStorage: {keys: [{id: a, env: STORAGE_KEY}]}\n"
	for _, tt := range []struct{ name, text, place, provider, where, wrong string }{
		{"redis", toolhive, "", "", "", "VMCP_STORAGE_URL"},
		{"replaced", toolhive, "sqlite:runs.db", StorageSQLite, "/conf/runs.db", ""},
		{"postgres", key, "postgres://vmcp:hunter2hunter2@db/vmcp", StoragePostgres, "postgres://vmcp:hunter2hunter2@db/vmcp", ""},
		{"postgres without keys", "name: x\n", "postgres://vmcp:hunter2hunter2@db/vmcp", "", "", "want keys"},
		{"neither", "name: x\n", "redis://db:6379", "", "", "neither sqlite:PATH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse("/conf/vmcp.yaml", []byte(tt.text), func(name string) (string, bool) {
				if name == storageURL {
					return tt.place, tt.place != ""
				}
				return testEnv(name)
			})
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "hunter2") {
					t.Fatalf("parse: %v, want %q and no secret", err, tt.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s := c.SessionStorage
			if s.Provider != tt.provider || s.Path+s.URL != tt.where {
				t.Errorf("have %+v, want %s at %s", s, tt.provider, tt.where)
			}
			if warned := len(c.Warnings()) == 3; warned != (tt.text == toolhive) {
				t.Errorf("warnings: %v", c.Warnings())
			}
		})
	}
}
