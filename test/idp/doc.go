// Package idp tests vmcp with an independent identity provider: npm's
// oidc-provider, a certified OpenID provider. A client that is configured with the endpoint only
// discovers the provider, logs a person in without a browser, and calls tools with the tokens.
//
// It needs npm, and the network the first time: go test -tags npm ./test/idp
package idp
