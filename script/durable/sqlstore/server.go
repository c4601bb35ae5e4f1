package sqlstore

import (
	"context"
	"fmt"
	"time"
)

// assign assigns a schema to the server whose processes keep their runs in it, and refuses one that is assigned to another
// server, even while none of that server's processes runs: this server would execute their runs with its own scripts, and
// answer for their sessions. The configuration is not compared, since it changes while replicas of both versions run. The
// table is not one of the migrations, so that earlier programs still accept the schema.
func assign(ctx context.Context, t tx, server, database, schema string) error {
	if server == "" {
		return nil
	}
	if _, err := t.exec(ctx, `CREATE TABLE IF NOT EXISTS @served (one {int} PRIMARY KEY, server TEXT NOT NULL, since {int} NOT NULL)`); err != nil {
		return err
	}
	if _, err := t.exec(ctx, `INSERT INTO @served (one, server, since) VALUES (1, ?, {now}) ON CONFLICT (one) DO NOTHING`, server); err != nil {
		return err
	}
	var owner string
	var since int64
	if err := one(ctx, t, `SELECT server, since FROM @served WHERE one = 1`, nil, &owner, &since); err != nil || owner == server {
		return err
	}
	return fmt.Errorf("sessionStorage.schema: the schema %s of %s has the runs of the server %s since %s, and this process serves %s: two servers in one schema would use each other's sessions, runs and limits. "+
		"Give %[5]s another schema; or, if %[3]s will not run again and %[5]s is to take over its sessions and runs, run: DELETE FROM \"%[1]s\".served",
		schema, database, owner, time.UnixMicro(since).UTC().Format(time.RFC3339), server)
}
