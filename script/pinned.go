package script

// Sources are the texts of all files of the program, by name. Compiled again, with the main one
// and a Library of the others, they are the same program. Nobody may change the map.
func (p *Program) Sources() map[string]string {
	p.once.Do(func() {
		p.texts = map[string]string{p.main.name: string(p.main.source.Source)}
		for name, f := range p.files {
			p.texts[name] = string(f.source.Source)
		}
	})
	return p.texts
}
