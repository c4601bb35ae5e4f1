// Package credentials authenticates requests to backends: for each backend a [Provider], made from the backend's
// strategy in outgoingAuth. It has one [Source] for shared connections and, where each principal has its own
// credential, one source for each principal.
//
//	pool := credentials.NewPool(credentials.Options{Secrets: redactor})
//	defer pool.Close()
//	source := pool.Provider(cfg).Shared()
//	credential, err := source.Get(ctx)
//	credential.Set(request.Header)
//
// A client's token is sent to a configured token endpoint at most (token exchange), never to a backend.
//
// # Tokens
//
// A source of tokens (token.go) is in one of four states, guarded by tokens.mu:
//
//	none     Get starts a fetch and waits for it
//	good     until nine tenths of the lifetime: Get returns the token
//	due      until the end of the lifetime: Get returns the token and starts a fetch that no caller waits for;
//	         a fetch that fails is retried 5 s later at the earliest
//	ended    as none; a token that the backend refused with 401 (Refused) is dropped at once
//
// One fetch at a time runs for each source (a flight), on a goroutine of the pool, for at most 10 s; it does not end
// with the request that started it. A failed fetch is not cached: the next Get in state none starts another.
//
// # Logins
//
// The grant of a login (access token, refresh token, where they are renewed) is kept by a [Keeper]: one [Store], a
// file, or one [Shared], rows of the database of all replicas. The grant of "" is this proxy's own (vmcp login). How a
// principal logs in through the pages of this endpoint is described in pending.go, for several replicas in board.go.
//
// The fetch of a login (granted.renew) first reads the grant from the keeper. A grant that is still good is used as it
// was read: another process has renewed it, or a person has logged in. Otherwise Keeper.renew acquires the lock of
// this one grant, reads the grant again, and only then sends the refresh token, so that of two processes the first
// renews and the second, when it has the lock, finds a good token and sends nothing. The lock is
//
//   - for a file: FILE.renew-ID, locked by flock (exclusive creation where there is none); waited for 40 s at most.
//     FILE.lock guards each rewrite of the file, which replaces it by a rename
//   - for rows: the row, by SELECT … FOR UPDATE, in a transaction that stays open while the authorization server is
//     asked; 4 such transactions in each process
//
// The new grant is stored before its token is used, because with rotation the new refresh token is the only valid
// one. Then:
//
//   - the refresh token is refused (used up, revoked, expired): Get fails with the login that is needed; the grant
//     stays where it is until vmcp logout or a new login replaces it, and its refresh token is not sent again for a
//     minute
//   - the authorization server is away or answers 5xx: the grant stays as it was, and the next fetch retries
//   - the process is killed between the response and the write: the new refresh token is lost, and a login is needed
//   - the file or the database does not take the new grant: the process keeps it in memory (unsaved.go), uses it, and
//     writes it at a later read or renewal of that grant, unless the grant that it replaces is no longer there
//   - the store cannot be read: tokens in memory are used until they end, then Get fails and may be retried
//
// At most once a second, Get compares the token in memory with the store (granted.dropStale) and drops it where
// another process has stored a newer one or logged out: for a file before it returns, for rows in the background.
package credentials
