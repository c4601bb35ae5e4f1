package migrate

import "strings"

// byLevel writes the steps level by level, and then the result. An answer of the user
// that ends the workflow early returns, or skips the rest where the result is made of more
// than the last output.
func (e *emitter) byLevel(levels [][]*step) error {
	for i, level := range levels {
		if err := e.dialect.oneLevel(level); err != nil {
			return err
		}
		ends := e.endings(level, i+1 < len(levels))
		switch {
		case ends == "":
		case e.w.output == nil:
			e.code.line("if %s:", ends)
			e.code.block(func() { e.dialect.early(level) })
		default:
			e.assumeSkipped(levels[i+1:])
			if err := e.unless(ends, levels[i+1:]); err != nil {
				return err
			}
			return e.dialect.result()
		}
	}
	return e.dialect.result()
}

// endings is the condition under which an answer in the level has ended the workflow; ""
// when none can, or when nothing follows.
func (e *emitter) endings(level []*step, more bool) string {
	var ends []string
	for _, s := range level {
		if s.skips() && more {
			ends = append(ends, e.dialect.skipped(s))
		}
	}
	return strings.Join(ends, " or ")
}

// assumeSkipped gives steps the values that they have when they are skipped.
func (e *emitter) assumeSkipped(levels [][]*step) {
	for _, level := range levels {
		for _, s := range level {
			e.dialect.assume(s)
		}
	}
}

// unless writes levels for the case that no answer has ended the workflow.
func (e *emitter) unless(ended string, levels [][]*step) (err error) {
	if strings.ContainsAny(ended, " ") {
		ended = "(" + ended + ")"
	}
	e.code.line("if not %s:", ended)
	e.code.block(func() {
		for i, level := range levels {
			if err = e.dialect.oneLevel(level); err != nil {
				return
			}
			if ends := e.endings(level, i+1 < len(levels)); ends != "" {
				err = e.unless(ends, levels[i+1:])
				return
			}
		}
	})
	return err
}
