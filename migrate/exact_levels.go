package migrate

import "strings"

// byLevel writes the steps level by level, and then the result. An answer of the user
// that ends the workflow early returns, or skips the rest where the result is made of more
// than the last output.
func (x *exact) byLevel(levels [][]*step) error {
	for i, level := range levels {
		if err := x.oneLevel(level); err != nil {
			return err
		}
		ends := x.endings(level, i+1 < len(levels))
		switch {
		case ends == "":
		case x.w.output == nil:
			x.code.line("if %s:", ends)
			x.code.block(func() { x.early(level) })
		default:
			x.assumeSkipped(levels[i+1:])
			if err := x.unless(ends, levels[i+1:]); err != nil {
				return err
			}
			return x.result()
		}
	}
	return x.result()
}

// endings is the condition under which an answer in the level has ended the workflow; ""
// when none can, or when nothing follows.
func (x *exact) endings(level []*step, more bool) string {
	var ends []string
	for _, s := range level {
		if s.skips() && more {
			ends = append(ends, x.skipped(s))
		}
	}
	return strings.Join(ends, " or ")
}

// assumeSkipped gives steps the values that they have when they are skipped.
func (x *exact) assumeSkipped(levels [][]*step) {
	for _, level := range levels {
		for _, s := range level {
			x.assume(s)
		}
	}
}

// unless writes levels for the case that no answer has ended the workflow.
func (x *exact) unless(ended string, levels [][]*step) (err error) {
	if strings.ContainsAny(ended, " ") {
		ended = "(" + ended + ")"
	}
	x.code.line("if not %s:", ended)
	x.code.block(func() {
		for i, level := range levels {
			if err = x.oneLevel(level); err != nil {
				return
			}
			if ends := x.endings(level, i+1 < len(levels)); ends != "" {
				err = x.unless(ends, levels[i+1:])
				return
			}
		}
	})
	return err
}
