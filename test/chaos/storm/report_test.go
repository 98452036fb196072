package storm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// report is one of a run that did enough.
func report() *Report {
	r := newReport(Options{Seed: 7, Cover: true})
	r.expect([]string{"point"}, []string{"fault"})
	for range met {
		r.count(Crash, "point")
		r.count(Fault, "fault")
	}
	for range manyCreates / 2 {
		r.count(CreateWarm, ready)
		r.count(CreateCold, "503")
		r.count(CreateCold, nothing)
	}
	return r
}

func TestTheVerdictOfARun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(*Report)
		want  string // begins the verdict
		short string // part of the only shortfall
	}{
		"all well":                   {func(*Report) {}, "chaos: OK seed=7", ""},
		"a violation":                {func(r *Report) { r.Violations = []string{"x"} }, "chaos: VIOLATION seed=7", ""},
		"too few creates were ready": {func(r *Report) { r.count(CreateWarm, "503") }, "chaos: SHORTFALL seed=7", "50 of 101 creates"},
		"no create at all":           {func(r *Report) { delete(r.outcomes, CreateWarm); delete(r.outcomes, CreateCold) }, "chaos: SHORTFALL", "0 of 0 creates"},
		"few creates, and few of them ready": {func(r *Report) {
			r.outcomes[CreateWarm] = map[string]int{ready: 1}
			r.outcomes[CreateCold] = map[string]int{"503": 9}
		}, "chaos: OK", ""},
		"a point that was seldom met": {func(r *Report) { r.outcomes[Crash]["point"] = 2 }, "chaos: SHORTFALL", `crash "point" came up 2 times`},
		"a fault that was never met":  {func(r *Report) { delete(r.outcomes, Fault) }, "chaos: SHORTFALL", `fault "fault" came up 0 times`},
		"a short run need not meet all": {func(r *Report) {
			r.Cover = false
			delete(r.outcomes, Fault)
		}, "chaos: OK", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report()
			test.spoil(r)
			var printed strings.Builder
			r.Print(&printed)
			lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
			assert.True(t, strings.HasPrefix(lines[len(lines)-1], test.want), lines[len(lines)-1])
			assert.Equal(t, strings.HasPrefix(test.want, "chaos: OK"), r.OK())
			short := r.Shortfalls()
			if test.short == "" {
				assert.Empty(t, short)
				return
			}
			require.Len(t, short, 1)
			assert.Contains(t, short[0], test.short)
		})
	}
}
