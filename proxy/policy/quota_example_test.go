package policy_test

import (
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// Two calls an hour by each principal.
func ExampleQuota_Take() {
	var q policy.Quota
	q.Apply(config.RateLimiting{PerUser: config.Bucket{MaxTokens: 2, RefillPeriod: config.Duration(time.Hour)}})
	for range 3 {
		if over := q.Take("ann", "github_search", "github.search"); over != nil {
			fmt.Println("refused:", over.Limit, over.Calls, "calls in", over.Period)
			continue
		}
		fmt.Println("made")
	}
	fmt.Println("bob may:", q.Take("bob", "github_search", "github.search") == nil)
	// Output:
	// made
	// made
	// refused: rateLimiting.perUser 2 calls in 1h0m0s
	// bob may: true
}
