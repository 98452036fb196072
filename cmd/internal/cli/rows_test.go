package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheTimeThatIsLeftIsReadToTheSecond(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		at   time.Time
		want string
	}{
		"what was given two hours a moment ago": {now.Add(2*time.Hour - 10*time.Millisecond), "120m"},
		"what was given eight hours":            {now.Add(8*time.Hour - 400*time.Millisecond), "8h"},
		"a second later it is less":             {now.Add(8*time.Hour - time.Second), "7h59m"},
		"what is over":                          {now, "now"},
		"what has no end":                       {time.Time{}, "never"},
	} {
		assert.Equal(t, c.want, until(now, c.at), name)
	}
}
