package script

// Engine is the version of the builtins' behaviour. It is raised when one of them performs other effects over the same
// journal; a run is resumed only by the engine that began it.
const Engine = 1
